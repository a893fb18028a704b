"""What the window remembers between sittings: layout, theme, breakpoints, filters, pairs; the layout under a schema."""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

SCHEMA = 3
"""Raise it when docks or their names change: an older layout is then forgotten, not misread."""

MOST_RECENT = 12
"""Pairs of models that are remembered."""


class SettingsStore:
    """QSettings behind names; what was written under another schema reads as nothing."""

    def __init__(self, settings: QSettings | None = None) -> None:
        self._settings = settings if settings is not None else QSettings("draftscope", "draftscope")

    def _is_current(self) -> bool:
        return str(self._settings.value("schema", "")) == str(SCHEMA)

    def save_layout(self, geometry: QByteArray | None, state: QByteArray | None, workspace: str = "inspect") -> None:
        """Keep the window's place and the docks' arrangement in a workspace; None keeps what was there."""
        if not self._is_current():
            self._settings.remove("layout")
        self._settings.setValue("schema", SCHEMA)
        for name, value in (("geometry", geometry), (f"docks/{workspace}", state)):
            if value is not None:
                self._settings.setValue(f"layout/{name}", value)
        self._settings.sync()

    def geometry(self) -> QByteArray | None:
        return self._bytes("layout/geometry")

    def docks(self, workspace: str = "inspect") -> QByteArray | None:
        """The arrangement of a workspace's docks, None where it is the default one."""
        return self._bytes(f"layout/docks/{workspace}")

    def forget_docks(self, workspace: str = "inspect") -> None:
        """A workspace's default layout from now on."""
        self._settings.remove(f"layout/docks/{workspace}")

    @property
    def workspace(self) -> str | None:
        """The workspace that was in use last, by its id."""
        value = self._settings.value("layout/workspace") if self._is_current() else None
        return value if isinstance(value, str) else None

    @workspace.setter
    def workspace(self, name: str) -> None:
        self._settings.setValue("layout/workspace", name)

    def _bytes(self, name: str) -> QByteArray | None:
        value = self._settings.value(name) if self._is_current() else None
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None

    @property
    def breakpoints(self) -> list[Any]:
        """Breakpoints as `Breakpoint.to_plain` writes them; nothing of them was checked."""
        return self._list("breakpoints")

    @breakpoints.setter
    def breakpoints(self, plain: list[Any]) -> None:
        self._settings.setValue("breakpoints", json.dumps(plain))

    @property
    def filters(self) -> list[str]:
        """Filter lines that were saved."""
        return [line for line in self._list("filters") if isinstance(line, str)]

    @filters.setter
    def filters(self, lines: list[str]) -> None:
        self._settings.setValue("filters", json.dumps(lines))

    @property
    def recent_pairs(self) -> list[Any]:
        """Pairs used before as `app.model_choice.to_plain` writes them, newest first; nothing of them was checked."""
        return self._list("recent-pairs")[:MOST_RECENT]

    @recent_pairs.setter
    def recent_pairs(self, plain: list[Any]) -> None:
        self._settings.setValue("recent-pairs", json.dumps(plain[:MOST_RECENT]))

    def _list(self, name: str) -> list[Any]:
        # As JSON: Qt would give a list of one back as its only entry.
        try:
            read = json.loads(str(self._settings.value(name, "[]")))
        except ValueError:
            return []
        return read if isinstance(read, list) else []

    @property
    def theme(self) -> str | None:
        """The colour scheme chosen in the window, None if none was."""
        value = self._settings.value("theme")
        return value if value in ("system", "light", "dark") else None

    @theme.setter
    def theme(self, scheme: str) -> None:
        self._settings.setValue("theme", scheme)
