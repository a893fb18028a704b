"""A chart of a recorded run as a picture, drawn off screen by the window's own panels."""

from __future__ import annotations

import os

from engine.recording import RecordedRun

WIDTH_EM, LINES = 92, {"acceptance": 15, "positions": 12, "kv": 5, "timeline": 7}
"""Sizes of the pictures, in the font's em and lines."""


def chart(run: RecordedRun, name: str, kind: str, scheme: str) -> bytes:
    """The chart `name`, a key of LINES, as `png` or `svg`, in the colours of `scheme`: light or dark."""
    # Before Qt is asked for an application: a command needs no display, and shows nothing on one.
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication, QWidget

    from app import theme
    from app.dialogs.export_picture import picture
    from app.panels.acceptance import AcceptancePanel
    from app.panels.kv_positions import KvPositionsPanel
    from app.panels.timeline import TimelinePanel
    from app.view import View

    application = QApplication.instance() or QApplication(["draftscope"])
    assert isinstance(application, QApplication)
    theme.apply(application, scheme)
    view = View()
    panel: QWidget
    if name == "kv":
        title, panel = "KV positions", KvPositionsPanel(view)
    elif name == "timeline":
        title, panel = "Timeline", TimelinePanel(view)
    else:
        title, panel = "Acceptance", AcceptancePanel(view)
        panel.show_by_position(name == "positions")
    try:
        panel.resize(theme.em() * WIDTH_EM, theme.line_height() * LINES[name])
        view.show_run(run)
        panel.show()
        panel.clearFocus()  # its frame belongs to no picture
        application.processEvents()
        return picture(panel, title, kind)
    finally:
        panel.close()
        panel.deleteLater()
        view.deleteLater()
        application.sendPostedEvents()
