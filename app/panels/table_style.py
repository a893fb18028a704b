"""The looks that all tables share: no grid, rows and header by the font, columns that only the table itself sizes."""

from __future__ import annotations

from PySide6.QtWidgets import QHeaderView, QTableView

from app import theme


def dress(table: QTableView) -> None:
    """Give a table the common looks."""
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    rows = table.verticalHeader()
    rows.hide()
    rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    rows.setMinimumSectionSize(1)
    rows.setDefaultSectionSize(theme.line_height() + 4)
    head = table.horizontalHeader()
    head.setFont(theme.ui_font(0.85))
    head.setFixedHeight(theme.line_height() + 5)
    head.setMinimumSectionSize(1)
    head.setHighlightSections(False)
    head.setSectionsClickable(False)
    head.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
