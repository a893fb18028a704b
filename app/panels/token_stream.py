"""The token stream: every token of the run as a chip that shows where it came from; the way to any position."""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QCheckBox, QFrame, QToolTip, QWidget

from app import theme
from app.format import count, probability, token_bytes, visible_text
from app.panels.chips import TokenPainter, colour, plain_tip
from app.panels.title_controls import shelve
from app.panels.token_cells import KINDS, PROMPT_ROUND, REJECTED, Cells, cells_of, prompt_cells
from app.panels.token_layout import GAP, TokenLayout
from app.theme import Palette
from app.view import View
from engine.recording import RecordedRun

MARGIN_X, MARGIN_Y, ROW_GAP = 8, 3, 4
TAKE_IN_SECONDS = 0.006
"""Longest time spent on new rounds at once; what is left comes with the next turn of the event loop."""

FEWEST, MOST = 8, 2048
"""Rounds taken in between two looks at the clock: few while their tokens are new, many once they are known."""

EMPTY = "Press Run: every token of the prompt and of the stream appears here, marked by where it came from."


class TokenStreamPanel(QAbstractScrollArea):
    """Prompt and emitted tokens as chips, rejected drafts before their replacement if wanted.

    Signals: `title_changed`, when `title_context` gives another text.
    """

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._run: RecordedRun | None = None
        self._taken = 0
        self._stride = FEWEST
        self._layout = TokenLayout()
        self._chips = TokenPainter()
        self._cursor: tuple[int, int] | None = None
        self._range: tuple[int, int] | None = None
        self._title = ""
        self._reveal = False
        self._moves = view.moves
        self.setObjectName("token-stream")
        self.setAccessibleName("Token stream")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        # The dock's title takes the check box over; until then it stays out of sight without being hidden itself.
        self._rejected = QCheckBox("Rejected drafts", self)
        shelve(self, self._rejected)
        self._rejected.setFont(theme.ui_font(0.92))
        self._rejected.setChecked(True)
        self._rejected.setAccessibleName("Show rejected drafts in the token stream")
        self._rejected.setToolTip("Show each rejected draft, struck through, before the token that replaced it")
        self._rejected.toggled.connect(self._start_over)
        self._more = QTimer(self)
        self._more.setSingleShot(True)
        self._more.timeout.connect(self._take_in)
        view.run_changed.connect(self._start_over)
        view.join(self, self._refresh)
        self.verticalScrollBar().actionTriggered.connect(self._on_user_scroll)
        theme.notifier.changed.connect(self._on_theme)
        self._start_over()

    # What the dock asks

    def title_context(self) -> str:
        """`15 prompt, 94 of 100 emitted`."""
        return self._title

    def title_widgets(self) -> list[QWidget]:
        """Controls for the dock's title."""
        return [self._rejected]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self._chips.restyle(colours)
        self.viewport().update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, self._pitch * 4 + 2 * MARGIN_Y)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 12, self._pitch * 2 + 2 * MARGIN_Y)

    # Cells

    @property
    def _pitch(self) -> int:
        return self._chips.height + ROW_GAP

    def _start_over(self) -> None:
        self._run, self._taken, self._range = self._view.run, 0, None
        self._stride = FEWEST
        self._reveal = True
        self._layout.clear()
        if self._run is not None:
            self._chips.set_vocabulary(self._run.header.vocabulary)
            self._add(prompt_cells(self._run.header.prompt_tokens))
        self._layout.set_width(self._room, self._step)
        if not self._view.telling:
            self._take_in()

    def _add(self, cells: Cells) -> None:
        self._layout.add(cells, self._chips.chip_widths(cells.token, cells.kind, KINDS))

    def _take_in(self) -> None:
        """Add the rounds that have come, for a bounded time; hidden, it waits until it is shown."""
        self._set_title()
        run = self._run
        if run is None or not self.isVisible():
            self._after_layout()
            return
        now = time.perf_counter()
        until = now + TAKE_IN_SECONDS
        while self._taken < len(run):
            behind = min(self._taken + self._stride, len(run))
            self._add(cells_of(run, self._taken, behind, self._rejected.isChecked()))
            self._taken = behind
            began, now = now, time.perf_counter()
            self._set_stride(now - began)
            if now > until and behind < len(run):
                self._more.start(0)
                break
        self._layout.lay_rows()
        self._after_layout()

    def _set_stride(self, seconds: float) -> None:
        """Look at the clock about eight times in the time allowed, however long rounds take."""
        if seconds > TAKE_IN_SECONDS / 4:
            self._stride = max(self._stride // 2, FEWEST)
        elif seconds < TAKE_IN_SECONDS / 16:
            self._stride = min(self._stride * 2, MOST)

    def _after_layout(self) -> None:
        bar = self.verticalScrollBar()
        height = self._layout.rows * self._pitch + 2 * MARGIN_Y
        room = self.viewport().height()
        bar.setSingleStep(self._pitch)
        bar.setPageStep(room)
        bar.setRange(0, max(height - room, 0))
        self._locate_cursor()
        if self._view.live:
            bar.setValue(bar.maximum())
            self._reveal = False
        elif self._reveal and self._cursor is not None:
            self._show_row(self._layout.row_of(self._cursor[0]))
            self._reveal = False
        self.viewport().update()

    def _refresh(self) -> None:
        """Follow the view: new rounds, and the cursor where it has moved."""
        moved, self._moves = self._view.moves != self._moves, self._view.moves
        self._take_in()
        if moved and not self._view.live and self._cursor is not None:
            self._show_row(self._layout.row_of(self._cursor[0]))

    def _set_title(self) -> None:
        run, title = self._run, ""
        if run is not None:
            wanted = run.header.settings.max_tokens
            of = f" of {count(wanted)}" if wanted >= 0 else ""
            title = f"{count(len(run.header.prompt_tokens))} prompt, {count(len(run.tokens))}{of} emitted"
        if title != self._title:
            self._title = title
            self.title_changed.emit()

    # Cursor and selection

    def _locate_cursor(self) -> None:
        """Find the cells under the cursor: one, or a rejected draft with its replacement."""
        self._cursor = None
        if self._run is None or not 0 <= self._view.round_index < self._taken:
            return
        cell = self._layout.find(self._view.round_index, self._view.position)
        if cell is not None:
            self._cursor = self._unit(cell)

    def _unit(self, cell: int) -> tuple[int, int]:
        """First and last cell of the pair that a cell belongs to."""
        glued = self._layout.column("glued")
        if glued[cell] and cell + 1 < self._layout.count:
            return cell, cell + 1
        return (cell - 1, cell) if cell and glued[cell - 1] else (cell, cell)

    def _show_row(self, row: int) -> None:
        bar, top = self.verticalScrollBar(), row * self._pitch
        if top < bar.value():
            bar.setValue(top)
        elif top + self._pitch + 2 * MARGIN_Y > bar.value() + self.viewport().height():
            bar.setValue(top + self._pitch + 2 * MARGIN_Y - self.viewport().height())

    def _on_user_scroll(self) -> None:
        """Scrolling away from the tail of a run that goes on lets go of it, as a click does."""
        bar = self.verticalScrollBar()
        going = self._run is not None and self._run.end is None
        if self._view.live and going and bar.sliderPosition() < bar.maximum():
            place = bar.sliderPosition()
            self._view.select(self._view.round_index, self._view.position)
            bar.setSliderPosition(place)

    def cell_at(self, point: QPoint) -> int | None:
        """The cell at a point of the viewport."""
        row = (point.y() + self.verticalScrollBar().value() - MARGIN_Y) // self._pitch
        return self._layout.cell_at(row, point.x() - MARGIN_X)

    def cell_rect(self, cell: int) -> QRect:
        """Where a cell (its first row) stands in the viewport."""
        row = self._layout.row_of(cell)
        top = row * self._pitch + MARGIN_Y - self.verticalScrollBar().value()
        width = int(self._layout.column("width")[cell])
        return QRect(MARGIN_X + self._layout.x_of(cell), top, width, self._chips.height)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position().toPoint())
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if cell is None:
            self._set_range(None)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._set_range((self._anchor(cell), cell))
        else:
            self._set_range((cell, cell))
            self._go_to(cell)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position().toPoint())
        if event.buttons() & Qt.MouseButton.LeftButton and cell is not None and self._range is not None:
            self._set_range((self._range[0], cell))

    def _anchor(self, otherwise: int) -> int:
        if self._range is not None:
            return self._range[0]
        return self._cursor[0] if self._cursor is not None else otherwise

    def _set_range(self, chosen: tuple[int, int] | None) -> None:
        if chosen != self._range:
            self._range = chosen
            self.viewport().update()

    def _go_to(self, cell: int) -> None:
        round_index, position = self._layout.cell(cell)[:2]
        if round_index != PROMPT_ROUND:
            self._view.select(round_index, position)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, extend = event.key(), bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self._set_range((0, self._layout.count - 1) if self._layout.count else None)
        elif key == Qt.Key.Key_Escape and self._range is not None:
            self._set_range(None)
        elif key == Qt.Key.Key_End:
            self._set_range(None)
            self._view.follow_tail()
        elif key == Qt.Key.Key_Home and self._run is not None and len(self._run):
            self._move(self._layout.find(0, 0), extend)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._move(self._beside(1 if key == Qt.Key.Key_Right else -1, extend), extend)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._move(self._above_or_below(1 if key == Qt.Key.Key_Down else -1, extend), extend)
        else:
            super().keyPressEvent(event)

    def _head(self, extend: bool) -> tuple[int, int] | None:
        """The cells that a key moves from."""
        return self._unit(self._range[1]) if extend and self._range is not None else self._cursor

    def _beside(self, step: int, extend: bool) -> int | None:
        head = self._head(extend)
        if head is None:
            return None
        return head[1] + 1 if step > 0 else head[0] - 1

    def _above_or_below(self, step: int, extend: bool) -> int | None:
        head = self._head(extend)
        if head is None:
            return None
        row = self._layout.row_of(head[1]) + step
        return self._layout.nearest(row, self._layout.x_of(head[1])) if 0 <= row < self._layout.rows else None

    def _move(self, cell: int | None, extend: bool) -> None:
        if cell is None or not 0 <= cell < self._layout.count:
            return
        if extend:
            self._set_range((self._anchor(cell), cell))
            self._show_row(self._layout.row_of(cell))
        else:
            self._set_range(None)
            self._go_to(cell)

    # Copying

    def copied_text(self) -> str:
        """The original text of the selected tokens, or of everything; rejected drafts are no part of it."""
        run = self._run
        if run is None:
            return ""
        vocabulary, prompt = run.header.vocabulary, len(run.header.prompt_tokens)
        low, high = sorted(self._range) if self._range is not None else (0, self._layout.count - 1)
        if self._range is None or (low == 0 and high == self._layout.count - 1):
            return run.header.prompt + vocabulary.decode(run.tokens)
        low, high = self._unit(low)[0], self._unit(high)[1]
        kinds, tokens = self._layout.column("kind")[low : high + 1], self._layout.column("token")[low : high + 1]
        chosen = [int(token) for token in tokens[kinds != REJECTED]]
        if len(chosen) == 1 and vocabulary.kind(chosen[0]) != "text":
            return vocabulary.text_of(chosen[0])
        if low == 0 and high >= prompt - 1 > 0:
            return run.header.prompt + vocabulary.decode(chosen[prompt:])
        return vocabulary.decode(chosen)

    def copy(self) -> None:
        """Put `copied_text` on the clipboard."""
        QGuiApplication.clipboard().setText(self.copied_text())

    # Events

    @property
    def _room(self) -> int:
        return self.viewport().width() - 2 * MARGIN_X

    @property
    def _step(self) -> int:
        return max(round(self._chips.metrics.horizontalAdvance("0")), 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        bar = self.verticalScrollBar()
        row = min(bar.value() // self._pitch, self._layout.rows - 1)
        first = self._layout.row_span(row)[0] if row >= 0 else 0
        if self._room != self._layout.width:
            self._layout.set_width(self._room, self._step)
        self._after_layout()
        if not self._view.live and self._layout.rows:
            bar.setValue(self._layout.row_of(first) * self._pitch)
            if self._cursor is not None:
                self._show_row(self._layout.row_of(self._cursor[0]))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._take_in()

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self.cell_at(event.pos())
            if cell is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), self.tip(cell), self.viewport())
            return True
        return super().viewportEvent(event)

    def tip(self, cell: int) -> str:
        """What is known of a cell's token, as plain text."""
        run = self._run
        if run is None:
            return ""
        round_index, position, token, code = self._layout.cell(cell)[:4]
        vocabulary, kind = run.header.vocabulary, KINDS[code]
        lines = [f"text   {visible_text(vocabulary, token)}", f"bytes  {token_bytes(vocabulary, token)}"]
        if round_index == PROMPT_ROUND:
            return plain_tip(f"Token {token}: prompt, position {position}", lines)
        record = run[round_index]
        if position < record.k:
            draft = record.drafts[position]
            whose = "" if draft.token == token else "of the draft: "
            lines.append(f"{whose}p {probability(draft.p)}  q {probability(draft.q)}")
        if kind != "rejected":
            drawn = next((e.probability for e in record.emitted if e.position == position), None)
            lines.append(f"drawn with {probability(drawn)}")
        label = self._chips.styles[kind].label
        return plain_tip(f"Token {token}: {label}, round {round_index}, position {position + 1}", lines)

    def focusInEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().focusOutEvent(event)
        self.viewport().update()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        colours = self._chips.colours
        painter.fillRect(event.rect(), QColor(colours.base))
        if self._run is None:
            painter.setFont(theme.ui_font())
            painter.setPen(QColor(colours.text2))
            area = self.viewport().rect().adjusted(MARGIN_X, MARGIN_Y, -MARGIN_X, -MARGIN_Y)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, EMPTY)
            return
        scrolled = self.verticalScrollBar().value() - MARGIN_Y
        first = max((event.rect().top() + scrolled) // self._pitch, 0)
        last = min((event.rect().bottom() + scrolled) // self._pitch, self._layout.rows - 1)
        for row in range(first, last + 1):
            self._paint_row(painter, row, row * self._pitch - scrolled)

    def _paint_row(self, painter: QPainter, row: int, top: int) -> None:
        first, behind, offset = self._layout.row_span(row)
        x = MARGIN_X - offset
        wide = int(self._layout.column("width")[first]) > self._layout.width
        if wide:
            piece = self._layout.width // self._layout.step * self._layout.step
            painter.save()
            painter.setClipRect(QRect(MARGIN_X, top - 1, max(piece, 1), self._pitch))
        low, high = sorted(self._range) if self._range is not None and self._range[0] != self._range[1] else (1, 0)
        cursor = self._cursor or (1, 0)
        frame_left = x
        names = ("token", "kind", "width", "glued")
        columns = [self._layout.column(name)[first:behind].tolist() for name in names]
        for cell, token, code, width, glued in zip(range(first, behind), *columns, strict=True):
            if cell == cursor[0]:
                frame_left = x
            under_cursor = cursor[0] <= cell <= cursor[1]
            if low <= cell <= high:
                gap = 0 if glued or cell == high else GAP
                painter.fillRect(x, top, width + gap, self._chips.height, colour(self._chips.colours.selection))
                self._chips.draw_chip(painter, x, top, token, KINDS[code], selected=under_cursor, framed=False)
            elif wide:
                self._chips.draw_chip(painter, x, top, token, KINDS[code], selected=under_cursor, framed=False)
            else:
                self._chips.put_chip(painter, x, top, token, KINDS[code], selected=under_cursor)
            x += width
            if cell == cursor[1]:
                begin = frame_left if cursor[0] >= first else MARGIN_X
                self._frame(painter, QRect(begin, top, x - begin, self._chips.height))
            x += 0 if glued else GAP
        if wide:
            painter.restore()

    def _frame(self, painter: QPainter, area: QRect) -> None:
        self._chips.draw_frame(painter, area, focus=False)
        if self.hasFocus():
            self._chips.draw_frame(painter, area.adjusted(-2, -2, 2, 2), focus=True)
