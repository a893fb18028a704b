"""The round detail: for each drafted position the test with its numbers, then what was emitted and from which mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from app import theme
from app.panels.chips import GLYPH_GAP, TokenPainter, draw_glyph, glyph_size, hatch, plain_tip
from app.panels.round_text import (
    NO,
    Bar,
    DraftCell,
    EmitCell,
    Part,
    Test,
    copied,
    counts,
    draft_cell,
    emit_cell,
    fate_word,
    how_to_read,
    spoken,
    tip_lines,
)
from app.panels.title_controls import SideLabel, shelve
from app.theme import Outcome, Palette
from app.view import View
from engine.rounds import Round

PAD, TOP, BOTTOM, BAR_HEIGHT, CHIP_GAP = 10, 6, 2, 8, 4
NARROW_EM = 11
"""The least width of a cell; where that is too much for all of them, they scroll sideways."""
EMPTY = "Press Run: the round under the cursor is taken apart here, one cell for each drafted token."


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a line: text, a token by its id, or a glyph by its name. `look` names the font, or `glyph`.

    `room`: pixels that a token is elided to; None: all of it is shown.
    """

    part: Part
    ink: str
    look: str = "mono"
    room: int | None = None


Line = list[Piece]


class RoundDetailPanel(QAbstractScrollArea):
    """The cells of the round under the cursor; a click chooses a position.

    Signals: `title_changed`, when `title_name`, `title_context` or the label of `title_widgets` says something else.
    """

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._tokens = TokenPainter()
        self._small = TokenPainter(0.85)
        self._mono = theme.mono_font(0.85)
        self._ui = theme.ui_font(0.92)
        self._ui_bold = theme.ui_font(0.92, 600)
        self._fonts = {"mono": self._mono, "bold": theme.mono_font(0.85, 600)}
        self._fonts |= {"words": self._ui, "bold words": self._ui_bold}
        self._lines: list[list[Line]] = []
        self._mono_metrics = QFontMetricsF(self._mono)
        self._title = ("Round", "", "")
        # What is shown: the view may be ahead of it.
        self._run, self._record, self._position = view.run, view.round, view.position
        self._moves = view.moves
        # The dock's title takes the label over; until then it stays out of sight without being hidden itself.
        self._right = SideLabel(self)
        shelve(self, self._right)
        self.setObjectName("round-detail")
        self.setAccessibleName("Round detail")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._follow)
        theme.notifier.changed.connect(self._on_theme)
        self.restyle(theme.current())
        self._on_run_changed()

    # What the dock asks

    def title_name(self) -> str:
        """`Round 25`."""
        return self._title[0]

    def title_context(self) -> str:
        """The rule's test, and how to read the bars."""
        return self._title[1]

    def title_widgets(self) -> list[QWidget]:
        """The round's counts, its rule, and why that rule ran."""
        return [self._right]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self._colours = colours
        self._tokens.restyle(colours)
        self._small.restyle(colours)
        self._hatch = hatch(colours, self.devicePixelRatioF())
        self._lay_lines()
        self._right.update()
        self.viewport().update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, self._height(3))

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * NARROW_EM, self._height(2))

    # Geometry

    @property
    def _line(self) -> int:
        return theme.line_height()

    def _height(self, lines: int) -> int:
        """Height that chips, bar and so many lines of text need."""
        return self._text_top + lines * self._line + BOTTOM

    @property
    def _text_top(self) -> int:
        return TOP + self._tokens.height + 8 + BAR_HEIGHT + 6

    @property
    def _emit_top(self) -> int:
        """The last cell has no bar: its lines begin so that they end on the others' grid."""
        return self._text_top - self._line

    def _cells(self, record: Round) -> int:
        return record.k + 1 if record.k else 1

    def _cell_width(self, record: Round) -> float:
        least = theme.em() * NARROW_EM
        return max(self.viewport().width() / self._cells(record), float(least))

    def cell_rect(self, cell: int) -> QRect:
        """Where a cell stands in the viewport."""
        record = self._record
        if record is None:
            return QRect()
        width, scrolled = self._cell_width(record), self.horizontalScrollBar().value()
        left, right = round(cell * width), round((cell + 1) * width)
        return QRect(left - scrolled, 0, right - left, self.viewport().height())

    def cell_at(self, point: QPoint) -> int | None:
        """The cell at a point of the viewport."""
        record = self._record
        if record is None:
            return None
        cell = int((point.x() + self.horizontalScrollBar().value()) // self._cell_width(record))
        return cell if 0 <= cell < self._cells(record) else None

    def _emit_position(self, record: Round) -> int:
        """The position that the last cell stands for."""
        return record.emitted[-1].position if record.emitted else record.k

    def _fit_scroll_bar(self) -> None:
        record, bar = self._record, self.horizontalScrollBar()
        room = self.viewport().width()
        total = round(self._cell_width(record) * self._cells(record)) if record is not None else 0
        bar.setPageStep(room)
        bar.setSingleStep(theme.em() * 2)
        bar.setRange(0, max(total - room, 0))
        self._lay_lines()

    # Following the view

    def _on_run_changed(self) -> None:
        run = self._view.run
        for painter in (self._tokens, self._small):
            painter.set_vocabulary(run.header.vocabulary if run is not None else None)
        if not self._view.telling:
            self._refresh()

    def _follow(self) -> None:
        """Nothing here changes while the cursor stays, whatever else is recorded."""
        if self._view.moves != self._moves:
            self._refresh()

    def _refresh(self) -> None:
        self._moves = self._view.moves
        self._run, self._record, self._position = self._view.run, self._view.round, self._view.position
        record, run = self._record, self._run
        title = ("Round", "", "")
        if record is not None:
            title = (f"Round {record.index}", how_to_read(record), counts(record))
        if title != self._title:
            self._title = title
            self._right.setText(title[2])
            self._right.setToolTip(plain_tip("Why this rule ran", [title[2]]) if title[2] else "")
            self.title_changed.emit()
        if record is not None and run is not None and self.isVisible():
            self._fit_scroll_bar()
            self._show_cell(min(self._position, self._cells(record) - 1))
            self.setAccessibleDescription(spoken(run, record, self._position))
        self.viewport().update()

    def _show_cell(self, cell: int) -> None:
        bar, area = self.horizontalScrollBar(), self.cell_rect(cell)
        if area.left() < 0:
            bar.setValue(bar.value() + area.left())
        elif area.right() >= self.viewport().width():
            bar.setValue(bar.value() + area.right() - self.viewport().width() + 1)

    # Events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_scroll_bar()

    def showEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().showEvent(event)
        self._refresh()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        record, cell = self._record, self.cell_at(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and record is not None and cell is not None:
            position = cell if cell < record.k else self._emit_position(record)
            self._view.select(record.index, position)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        rounds = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in steps and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._view.step_position(steps[Qt.Key(event.key())], event.isAutoRepeat())
        elif event.key() in rounds:
            self._view.step_round(rounds[Qt.Key(event.key())], event.isAutoRepeat())
        elif event.key() == Qt.Key.Key_End:
            self._view.follow_tail()
        else:
            super().keyPressEvent(event)

    def copy(self) -> None:
        """Put the round on the clipboard as tab-separated text."""
        if self._record is not None and self._run is not None:
            QGuiApplication.clipboard().setText(copied(self._run, self._record))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self.cell_at(event.pos())
            tip = self.tip(cell) if cell is not None else ""
            if tip:
                QToolTip.showText(event.globalPos(), tip, self.viewport())
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def tip(self, cell: int) -> str:
        """All that is recorded of a cell, as plain text."""
        record, run = self._record, self._run
        if record is None or run is None:
            return ""
        text = run.header.vocabulary.text_of
        if cell >= record.k:
            lines = [f"{e.position + 1}  {e.source}  {text(e.token)!r}" for e in record.emitted]
            return plain_tip(f"Round {record.index} emitted", lines)
        draft = record.drafts[cell]
        lines = [f"text {text(draft.token)!r}", *tip_lines(record, cell)]
        if draft.match is not None:
            lines.append(f"compared with {draft.match} {text(draft.match)!r}")
        return plain_tip(f"Token {draft.token}, position {cell + 1}: {fate_word(record, draft.fate)}", lines)

    def focusInEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().focusOutEvent(event)
        self.viewport().update()

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        colours, record, run = self._colours, self._record, self._run
        painter.fillRect(event.rect(), QColor(colours.base))
        if record is None or run is None or len(self._lines) != record.k + 1:
            painter.setFont(theme.ui_font())
            painter.setPen(QColor(colours.text2))
            area = self.viewport().rect().adjusted(8, 4, -8, -4)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, EMPTY)
            return
        scrolled = self.verticalScrollBar().value()
        for cell in range(self._cells(record)):
            area = self.cell_rect(cell)
            if not area.intersects(event.rect()):
                continue
            is_last = cell == self._cells(record) - 1
            selected = self._position == (record.k if is_last else cell)
            back = colours.selection if selected else colours.alternate if is_last else colours.base
            painter.fillRect(area, QColor(back))
            painter.save()
            painter.setClipRect(area)
            inner = area.adjusted(PAD, -scrolled, -PAD, 0)
            if is_last:
                self._paint_emitted(painter, inner, emit_cell(run, record))
                self._paint_lines(painter, inner, self._emit_top - scrolled, self._lines[-1])
            else:
                self._paint_draft(painter, inner, draft_cell(record, cell))
                self._paint_lines(painter, inner, self._text_top - scrolled, self._lines[cell])
            painter.restore()
            if not is_last:
                painter.fillRect(area.right(), area.top(), 1, area.height(), QColor(colours.line))
            if selected and self.hasFocus():
                self._tokens.draw_frame(painter, area.adjusted(1, 1, -2, -1), focus=True)

    def _outcome(self, fate: str) -> Outcome | None:
        return {"accepted": self._colours.accepted, "rejected": self._colours.rejected}.get(fate)

    def _words(self, painter: QPainter, x: int, baseline: int, text: str, font: QFont, ink: str) -> int:
        painter.setFont(font)
        painter.setPen(QColor(ink))
        painter.drawText(QPointF(x, baseline), text)
        return x + QFontMetrics(font).horizontalAdvance(text)

    def _paint_draft(self, painter: QPainter, area: QRect, cell: DraftCell) -> None:
        colours, top = self._colours, area.top() + TOP
        baseline = self._tokens.baseline(top)
        x = self._words(painter, area.left(), baseline, f"{cell.position + 1} ", self._mono, colours.text2)
        verdict, outcome = cell.verdict, self._outcome(cell.fate)
        font, ink = (self._ui_bold, outcome.ink) if outcome else (self._ui, colours.disabled)
        wide = QFontMetrics(font).horizontalAdvance(verdict)
        glyph = glyph_size() + GLYPH_GAP if outcome else 0
        # The chip comes first: in a narrow cell the verdict is its glyph, as the colours and the test say it too.
        needed = self._tokens.chip_width(cell.token, cell.fate, glyph=False)
        right = area.right() + 1
        if x + min(needed, theme.em() * 4) + 6 + wide + glyph > right and outcome:
            wide = 0
        room = right - x - wide - glyph - 6
        self._tokens.draw_chip(painter, x, top, cell.token, cell.fate, glyph=False, room=room)
        if wide:
            self._words(painter, right - wide, baseline, verdict, font, ink)
        if outcome:
            name = self._tokens.styles[cell.fate].glyph or ""
            draw_glyph(painter, right - wide - glyph, baseline - glyph_size() + 1, name, ink)
        bar_top = top + self._tokens.height + 8
        self._paint_bar(painter, QRect(area.left(), bar_top, area.width(), BAR_HEIGHT), cell.bar)

    def _paint_bar(self, painter: QPainter, area: QRect, bar: Bar | None) -> None:
        colours = self._colours
        if bar is None or not bar.hatched:
            painter.setPen(QColor(colours.line))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0, 0, -1, -1))
        if bar is None:
            return
        filled = round(bar.fill * area.width())
        if bar.hatched:
            painter.setBrushOrigin(area.topLeft())
            painter.fillRect(area.adjusted(filled, 0, 0, 0), self._hatch)
        painter.fillRect(area.left(), area.top(), filled, area.height(), QColor(colours.accepted.fill))
        ink = QColor(colours.text)
        if bar.tick is not None:
            x = area.left() + round(bar.tick * (area.width() - 1))
            painter.fillRect(x, area.top() - 1, 1, area.height() + 4, ink)
        if bar.needle is not None:
            x = area.left() + round(bar.needle * (area.width() - 1))
            painter.fillRect(x, area.top() - 4, 1, area.height() + 6, ink)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(colours.base), 1))
            painter.setBrush(ink)
            tip = QPointF(x + 0.5, area.top() + 1.5)
            painter.drawPolygon(
                QPolygonF([tip, QPointF(x - 4.5, area.top() - 5.5), QPointF(x + 5.5, area.top() - 5.5)])
            )
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_emitted(self, painter: QPainter, area: QRect, cell: EmitCell) -> None:
        """The emitted chips; where they don't all fit, the label goes, then the first ones become an ellipsis."""
        top, right, metrics = area.top() + TOP, area.right() + 1, QFontMetrics(self._ui)
        widths = [self._tokens.chip_width(e.token, e.source) + CHIP_GAP for e in cell.emitted]
        x, baseline, first = area.left(), self._tokens.baseline(top), 0
        if sum(widths) - CHIP_GAP <= right - x - metrics.horizontalAdvance("emits  "):
            x = self._words(painter, x, baseline, "emits ", self._ui, self._colours.text2) + 2
        else:
            dots = metrics.horizontalAdvance("… ")
            while first < len(widths) - 1 and sum(widths[first:]) - CHIP_GAP + (dots if first else 0) > right - x:
                first += 1
            if first:
                x = self._words(painter, x, baseline, "… ", self._ui, self._colours.text2)
        for emitted in cell.emitted[first:]:
            x += self._tokens.draw_chip(painter, x, top, emitted.token, emitted.source, room=right - x) + CHIP_GAP

    # Lines of text

    def _lay_lines(self) -> None:
        """Choose every cell's lines for the present size, and how far they can be scrolled."""
        record, run = self._record, self._run
        self._lines = []
        if record is not None and run is not None:
            room = int(self._cell_width(record)) - 2 * PAD
            drafted = [draft_cell(record, at) for at in range(record.k)]
            cells = [self._draft_lines(cell, room) for cell in drafted]
            fitting = max((self.viewport().height() - self._text_top - BOTTOM) // self._line, 1)
            if any(len(lines) > fitting for lines in cells):
                cells = [self._draft_lines(cell, room, low=True) for cell in drafted]
            emitted = self._emit_lines(emit_cell(run, record), room)
            if len(emitted) > fitting + 1:
                emitted = self._emit_lines(emit_cell(run, record), room, low=True)
            self._lines = [*cells, emitted]
        # The last cell has no bar, so its lines begin one higher.
        least = max((len(lines) for lines in self._lines[:-1]), default=0)
        least = max(least, len(self._lines[-1]) - 1) if self._lines else 0
        bar, room = self.verticalScrollBar(), self.viewport().height()
        bar.setPageStep(room)
        bar.setSingleStep(self._line)
        bar.setRange(0, max(self._height(least) - room, 0))

    def _draft_lines(self, cell: DraftCell, room: int, low: bool = False) -> list[Line]:
        """The cell's lines; where not all of them can be seen (`low`), what decided comes first.

        An untested draft's q is then left to the tooltip.
        """
        quiet = [line for note in cell.notes for line in self._wrapped(note, room)]
        numbers = self._number_lines(cell.numbers, room, self._colours.text2)
        test = self._test_lines(cell.test, room, low) if cell.test is not None else []
        if not low:
            return [*numbers, *quiet, *test]
        if cell.test is None:
            return quiet
        if len(test) == 1:
            return [*numbers, *test, *quiet]
        if cell.test.brief_right and any(number.startswith("q ") for number in cell.numbers):
            # The test names p itself.
            others = [number for number in cell.numbers if not number.startswith("p ")]
            numbers = self._number_lines(others, room, self._colours.text2)
        return [*numbers, *test, *quiet] if len(numbers) == 1 else [*test, *numbers, *quiet]

    def _wrapped(self, text: str, room: int) -> list[Line]:
        """Words on as many lines as they need."""
        metrics, lines = QFontMetrics(self._ui), [""]
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}".lstrip()
            if metrics.horizontalAdvance(longer) > room and lines[-1]:
                lines.append(word)
            else:
                lines[-1] = longer
        return [[Piece(line, self._colours.text2, "words")] for line in lines]

    def _number_lines(self, numbers: Sequence[str], room: int, ink: str) -> list[Line]:
        """The numbers on one line if it can be, else on more."""
        for gap in ("  ", " "):
            whole = gap.join(numbers)
            if self._mono_metrics.horizontalAdvance(whole) <= room:
                return [[Piece(whole, ink)]] if whole else []
        lines = [""]
        for number in numbers:
            longer = f"{lines[-1]} {number}".lstrip()
            if lines[-1] and self._mono_metrics.horizontalAdvance(longer) > room:
                lines.append(number)
            else:
                lines[-1] = longer
        return [[Piece(line, ink)] for line in lines]

    def _test_lines(self, test: Test, room: int, low: bool) -> list[Line]:
        """The test on one line, on two, or in short where it is low: never elided."""
        colours = self._colours
        ink = colours.rejected.ink if test.verdict == NO else colours.accepted.ink
        verdict, space = Piece(f" {test.verdict}", ink, "bold"), Piece(" ", colours.text)

        def inked(parts: Sequence[Part]) -> Line:
            return [Piece(part, colours.text) for part in parts]

        whole = [*inked(test.left), space, *inked(test.right), verdict]
        if self._line_width(whole) <= room:
            return [whole]
        brief_right = test.brief_right or test.right
        brief = [*inked(test.brief), space, *inked(brief_right), verdict]
        if low and self._line_width(brief) <= room:
            return [brief]
        two = [inked(test.left), [*inked(test.right), verdict]]
        if all(self._line_width(line) <= room for line in two):
            return two
        return [self._fitted(line, room) for line in (inked(test.brief), [*inked(brief_right), verdict])]

    def _fitted(self, line: Line, room: int) -> Line:
        """The line with its tokens, and nothing else, elided to what room there is."""
        words = self._line_width([piece for piece in line if not isinstance(piece.part, int)])
        left = max(int(room - words), theme.em())
        return [replace(piece, room=left) if isinstance(piece.part, int) else piece for piece in line]

    def _emit_lines(self, cell: EmitCell, room: int, low: bool = False) -> list[Line]:
        """What was emitted, and from which mass; where it is `low`, numbers go before explanations."""
        style = self._tokens.styles.get(cell.source)
        glyph = style.glyph if style is not None and cell.source != "accepted" else None
        ink = style.glyph_ink if style is not None and glyph is not None else self._colours.text
        head = [Piece(glyph, ink, "glyph")] if glyph is not None else []
        head.append(Piece(cell.headline[0], ink, "bold words"))
        rest = [Piece(part, self._colours.text, "words") for part in cell.headline[1:]]
        lines: list[Line] = [[*head, *rest]]
        if rest and self._line_width(lines[0]) > room:
            first = Piece(str(rest[0].part).lstrip(), rest[0].ink, rest[0].look)
            lines = [head, self._fitted([first, *rest[1:]], room)]
        for note in cell.notes if not (low and cell.numbers) else ():
            lines += self._wrapped(note, room)
        return lines + self._number_lines(cell.numbers, room, self._colours.text)

    def _piece_width(self, piece: Piece) -> float:
        if piece.look == "glyph":
            return glyph_size() + GLYPH_GAP
        if isinstance(piece.part, int):
            width = self._small.text_width(piece.part)
            return width if piece.room is None else min(width, piece.room)
        return QFontMetricsF(self._fonts[piece.look]).horizontalAdvance(piece.part)

    def _line_width(self, line: Line) -> float:
        return sum(self._piece_width(piece) for piece in line)

    def _paint_lines(self, painter: QPainter, area: QRect, top: int, lines: Sequence[Line]) -> None:
        for at, line in enumerate(lines):
            metrics = self._mono_metrics
            baseline = top + at * self._line + round((self._line - metrics.height()) / 2 + metrics.ascent())
            x = float(area.left())
            for piece in line:
                if piece.look == "glyph":
                    draw_glyph(painter, x, baseline - glyph_size() + 1, str(piece.part), piece.ink)
                elif isinstance(piece.part, int):
                    self._small.draw_text(painter, x, baseline, piece.part, piece.ink, piece.room)
                else:
                    painter.setFont(self._fonts[piece.look])
                    painter.setPen(QColor(piece.ink))
                    painter.drawText(QPointF(x, baseline), piece.part)
                x += self._piece_width(piece)
