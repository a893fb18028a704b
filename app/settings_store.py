"""What the window remembers between sittings: its layout and theme, under a schema number."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QSettings

SCHEMA = 1
"""Raise it when docks or their names change: an older layout is then forgotten, not misread."""


class SettingsStore:
    """QSettings behind names; what was written under another schema reads as nothing."""

    def __init__(self, settings: QSettings | None = None) -> None:
        self._settings = settings if settings is not None else QSettings("draftscope", "draftscope")

    def _is_current(self) -> bool:
        return str(self._settings.value("schema", "")) == str(SCHEMA)

    def save_layout(self, geometry: QByteArray | None, state: QByteArray | None) -> None:
        """Keep the window's place and the docks' arrangement; None keeps what was there."""
        if not self._is_current():
            self._settings.remove("layout")
        self._settings.setValue("schema", SCHEMA)
        for name, value in (("geometry", geometry), ("docks", state)):
            if value is not None:
                self._settings.setValue(f"layout/{name}", value)
        self._settings.sync()

    def geometry(self) -> QByteArray | None:
        return self._bytes("layout/geometry")

    def docks(self) -> QByteArray | None:
        return self._bytes("layout/docks")

    def forget_docks(self) -> None:
        """The default layout from now on."""
        self._settings.remove("layout/docks")

    def _bytes(self, name: str) -> QByteArray | None:
        value = self._settings.value(name) if self._is_current() else None
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None

    @property
    def theme(self) -> str | None:
        """The colour scheme chosen in the window, None if none was."""
        value = self._settings.value("theme")
        return value if value in ("system", "light", "dark") else None

    @theme.setter
    def theme(self, scheme: str) -> None:
        self._settings.setValue("theme", scheme)
