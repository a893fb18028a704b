"""The status bar: state, models, rule, place, speed, drift at the left; progress, memory and backend at the right."""

from __future__ import annotations

import math

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from app import icons, theme
from app.format import count, plural, visible_string
from app.model_choice import models_words
from app.next_rule import is_reference, next_rule
from app.session import Session
from engine.recording import RecordedRun

_STATE_WORDS = {
    "idle": "Idle",
    "loading": "Loading",
    "ready": "Ready",
    "running": "Running",
    "paused": "Paused",
    "stopping": "Stopping",
    "failed": "Failed",
}
_STATE_ICONS = {"running": "play", "paused": "pause", "stopping": "stop", "failed": "cross", "loading": "again"}
_PAD = 10
_GO_FIRST = ("seed", "models", "memory", "speed", "tokens")
"""What goes where there is no room, in this order; the models stand in the toolbar and the title too."""


class StatusItem(QWidget):
    """A few words in a fixed order of fonts: (text, mono?, weight); a thin line at its right end."""

    def __init__(self, name: str, line_left: bool = False) -> None:
        super().__init__()
        self.setObjectName(name)
        self._line_left = line_left
        self._runs: tuple[tuple[str, bool, int], ...] = ()
        self._icon: str | None = None
        self._danger = False
        self.setFixedHeight(theme.line_height() + 8)

    def text(self) -> str:
        return "".join(text for text, _, _ in self._runs)

    def show_runs(
        self, runs: tuple[tuple[str, bool, int], ...], tip: str = "", icon: str | None = None, danger: bool = False
    ) -> None:
        """Show these words; nothing happens if they stand there already."""
        if tip != self.toolTip():
            self.setToolTip(tip)
        if (runs, icon, danger) == (self._runs, self._icon, self._danger):
            return
        self._runs, self._icon, self._danger = runs, icon, danger
        self.setAccessibleName(self.text())
        self.updateGeometry()
        self.update()

    def font_of(self, mono: bool, weight: int) -> QFont:
        """The font of a run."""
        return theme.mono_font(0.92, weight) if mono else theme.ui_font(0.92, weight)

    def sizeHint(self) -> QSize:
        if not self._runs:
            return QSize(0, self.height())
        width = sum(QFontMetrics(self.font_of(m, w)).horizontalAdvance(text) for text, m, w in self._runs)
        return QSize(width + 2 * _PAD + (theme.em() + 4 if self._icon else 0), self.height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._runs:
            return
        colours, painter = theme.current(), QPainter(self)
        ink = colours.danger if self._danger else colours.text
        left = _PAD
        if self._icon:
            side = theme.em()
            top = (self.height() - side) // 2
            painter.drawPixmap(left - 2, top, icons.pixmap(self._icon, ink, side, self.devicePixelRatioF()))
            left += side + 2
        painter.setPen(QColor(ink))
        for text, mono, weight in self._runs:
            painter.setFont(self.font_of(mono, weight))
            area = QRect(left, 0, self.width() - left, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
            left += painter.fontMetrics().horizontalAdvance(text)
        at = 0 if self._line_left else self.width() - 1
        painter.fillRect(at, 5, 1, self.height() - 10, QColor(colours.line))


class StatusBar(QWidget):
    """Follows the session. Signals: `cancel_wanted`, from the button beside the progress."""

    cancel_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setAccessibleName("Status")
        left = ("state", "models", "rule", "round", "tokens", "speed", "drift", "invariants", "seed")
        self.items = {name: StatusItem(name) for name in left}
        self.items |= {name: StatusItem(name, line_left=True) for name in ("memory", "backend")}
        self.progress = QProgressBar()
        self.progress.setFixedSize(theme.em() * 14, theme.line_height())
        self.progress.setFont(theme.ui_font(0.77))
        self.cancel = QPushButton("Cancel")
        self.cancel.setFont(theme.ui_font(0.92))
        self.cancel.setStyleSheet(f"min-height: {theme.line_height()}px; padding: 0 8px;")
        self.cancel.clicked.connect(self.cancel_wanted)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 1, 0, 0)
        line.setSpacing(0)
        for name in left:
            line.addWidget(self.items[name])
        line.addStretch(1)
        line.addWidget(self.progress)
        line.addSpacing(6)
        line.addWidget(self.cancel)
        line.addSpacing(6)
        line.addWidget(self.items["memory"])
        line.addWidget(self.items["backend"])
        self.setFixedHeight(theme.line_height() + 9)
        view = session.view
        session.state_changed.connect(self.refresh)
        session.described.connect(self.refresh)
        session.configured.connect(self.refresh)
        session.progress_changed.connect(self._refresh_progress)
        session.memory_changed.connect(self.refresh)
        session.pair_changed.connect(self.refresh)
        view.changed.connect(self.refresh)
        theme.notifier.changed.connect(self.update)
        self.refresh()
        self._refresh_progress()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height())

    def refresh(self) -> None:
        """Say what holds now."""
        session, run = self._session, self._session.view.run
        self._show_state(run)
        self._show_models()
        self._show_rule(run)
        self._show_run(run if run is not None and len(run) else None)
        memory, backend = session.memory_text, session.backend
        head, _, figure = memory.partition(" ")
        self.items["memory"].show_runs(
            ((head + " ", False, 400), (figure, True, 400)) if memory else (), "Memory that MLX holds: in use + cached"
        )
        slow = "slow" in backend
        self.items["backend"].show_runs(
            ((backend.partition(":")[0], False, 600 if slow else 400),) if backend else (), backend, danger=slow
        )
        self._fit()

    def _show_state(self, run: RecordedRun | None) -> None:
        session = self._session
        state = session.state
        about = ""
        if state == "idle":
            about = "no model loaded"
        elif state == "paused" and run is not None and len(run):
            about = session.why_paused or f"before round {len(run)}"
        elif state == "ready" and run is not None and run.end is not None:
            about = f"run ended, {run.end.finish_reason}"
        elif state == "running" and session.pausing:
            about = "pause after this round"
        elif state == "loading" and session.progress is not None:
            about = session.progress[0].removeprefix("Loading").partition(" (")[0].strip()
        elif state == "failed":
            about = QFontMetrics(self.items["state"].font_of(False, 400)).elidedText(
                visible_string(session.failure.partition("\n")[0]), Qt.TextElideMode.ElideRight, theme.em() * 36
            )
        tip = run.end.summary if run is not None and run.end is not None and state == "ready" else session.failure
        words = _STATE_WORDS[state]
        runs = ((f"{words}: ", False, 600), (about, False, 400)) if about else ((words, False, 600),)
        self.items["state"].show_runs(
            runs, "State\n" + tip if tip else "State", _STATE_ICONS.get(state), state == "failed"
        )

    def _show_models(self) -> None:
        session = self._session
        if session.pair is None:
            self.items["models"].show_runs(())
            return
        words, tip = models_words(session.pair, session.settings, 24)
        elided = QFontMetrics(theme.ui_font(0.92)).elidedText(words, Qt.TextElideMode.ElideRight, theme.em() * 30)
        self.items["models"].show_runs(((elided, False, 400),), f"The models that are loaded\n{tip}")

    def _show_rule(self, run: RecordedRun | None) -> None:
        session = self._session
        if session.view.round is not None:
            record = session.view.round
            rule, tip = record.rule, f"{record.rule_label}: {record.rule_reason}"
            lossless = record.distribution_preserving
        else:
            rule, tip = next_rule(session.settings)
            lossless = not is_reference(rule) and session.settings.main_rewind == "correct"
        runs: tuple[tuple[str, bool, int], ...] = (("rule=", False, 400), (rule, True, 400)) if rule else ()
        if runs and not lossless:
            runs = (*runs, (" ▲ not lossless", False, 600))
        self.items["rule"].show_runs(runs, tip, danger=not lossless)

    def _show_run(self, run: RecordedRun | None) -> None:
        items = self.items
        if run is None:
            for name in ("round", "tokens", "speed", "drift", "invariants", "seed"):
                items[name].show_runs(())
            return
        view = self._session.view
        items["round"].show_runs(
            (
                ("round ", False, 400),
                (str(view.round_index), True, 400),
                (" of ", False, 400),
                (f"0–{len(run) - 1}", True, 400),
            ),
            "The round under the cursor, of those recorded",
        )
        most = run.header.settings.max_tokens
        tokens = f"{count(len(run.tokens))}/{count(most)}" if most > 0 else count(len(run.tokens))
        items["tokens"].show_runs((("tokens ", False, 400), (tokens, True, 400)), "Tokens emitted, of those asked for")
        seconds = float(run.column("seconds").sum())
        per_second = len(run.tokens) / seconds if seconds > 0 else math.inf
        speed = f"{per_second:.0f}" if math.isfinite(per_second) else "-"
        tip = "Tokens emitted by the time spent in rounds; waiting for the pace or in a pause doesn't count"
        items["speed"].show_runs(((f"{speed} tok/s", True, 400),), tip)
        drift = run[-1].drift
        tip = "Expected minus actual position of the draft cache, after the newest round"
        if drift:
            items["drift"].show_runs(((f"▲ drift {drift}", False, 600),), tip, danger=True)
        else:
            items["drift"].show_runs((("drift ", False, 400), ("0", True, 400)), tip)
        failed = len(run.invariants.failures)
        words = f"✗ {plural(failed, 'invariant')}" if failed else ""
        tip = "Invariants that failed in a round of this run; the Debug workspace lists them"
        items["invariants"].show_runs(((words, False, 600),) if words else (), tip if words else "", danger=True)
        items["seed"].show_runs((("seed ", False, 400), (str(run.header.seed), True, 400)), "The seed in use")

    def _refresh_progress(self) -> None:
        progress = self._session.progress
        self._show_state(self._session.view.run)
        for widget in (self.progress, self.cancel):
            widget.setVisible(progress is not None)
        if progress is None:
            return
        what, done, total = progress
        # Qt's bar counts in 32 bits; these may be bytes.
        self.progress.setRange(0, 1000 if total else 0)
        self.progress.setValue(round(1000 * done / total) if total else 0)
        self.progress.setFormat(what.replace("%", "%%"))
        self.progress.setTextVisible(True)
        self._fit()

    def _fit(self) -> None:
        """What has no room goes, the least important first."""
        items = self.items
        for name in _GO_FIRST:
            items[name].setVisible(True)
        for name in _GO_FIRST:
            need = sum(item.sizeHint().width() for item in items.values() if not item.isHidden())
            if not self.progress.isHidden():
                need += self.progress.width() + self.cancel.sizeHint().width() + 12
            if need <= self.width():
                return
            items[name].setVisible(False)

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.window))
        painter.fillRect(0, 0, self.width(), 1, QColor(colours.line))
