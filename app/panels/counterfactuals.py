"""What if: the round under the cursor under every rule, with the same random draws, and the whole run added up.

Its second page tries the test at the cursor with another u, temperature or rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QToolTip, QVBoxLayout, QWidget

from app import theme
from app.format import plural, probability, rate, visible_text
from app.panels.chips import TokenPainter, colour, draw_glyph, glyph_size, plain_tip
from app.panels.help_button import HelpButton
from app.panels.need_diagnostics import NeedDiagnostics
from app.panels.title_controls import CopiesTable, Segments, Table, draw_sentence, shelve
from app.panels.trial import TrialPage
from app.panels.what_if_text import (
    FORMULAS,
    RuleRow,
    RunRow,
    place_text,
    rule_rows,
    run_rows,
    run_title,
    what_if_table,
    why_none,
)
from app.theme import Palette
from app.view import View
from engine.alternatives import GREEDY_DRAFTING, advice
from engine.rounds import Round
from engine.rules import RULE_TABLE
from engine.text import Vocabulary

EMPTY = "What the other rules would have made of a round appears here with the first one."
NEEDS = "Trying the other rules on the same drafts and the same draws takes Diagnostics."
NOT_HERE = "Diagnostics was off in this round, so the other rules weren't tried."
NOT_LOSSLESS = "not lossless, wrong on purpose"
NO_FORMULA = "no formula"
PAGE = "what-if.md"
PAD, GAP = 8, 10
RULES, TRIAL = 0, 1
"""The pages."""

SIDE_BY_SIDE = 56
"""From so many em on, the round and the run stand side by side."""

_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
_RIGHT = Qt.AlignmentFlag.AlignRight | _FLAT


@dataclass(frozen=True, slots=True)
class Shown:
    """What is painted. `place`: which round and position, and whether a draft is `tested` there.

    `reason` stands in place of `rules`, `advice` below `totals`.
    """

    place: str
    tested: bool
    rules: tuple[RuleRow, ...]
    reason: str
    title: str
    totals: tuple[RunRow, ...]
    advice: str


class Sheet(QWidget):
    """The two tables. It is as high as they need at its width."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._shown: Shown | None = None
        self._k = 0
        self.tokens = TokenPainter(0.85)
        self._vocabulary: Vocabulary | None = None
        self.setAccessibleName("What if")

    def set_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """The vocabulary that the rows' tokens belong to."""
        self._vocabulary = vocabulary
        self.tokens.set_vocabulary(vocabulary)

    def show_it(self, shown: Shown | None, k: int) -> None:
        """Paint this; `k` drafts are what most rules could keep."""
        if shown != self._shown or k != self._k:
            self._shown, self._k = shown, k
            self.setMinimumHeight(self._needed())
            self.update()

    def shown(self) -> Shown | None:
        return self._shown

    # Geometry

    @property
    def _row(self) -> int:
        return theme.line_height() + 1

    def _is_wide(self) -> bool:
        return self.width() >= SIDE_BY_SIDE * theme.em()

    def _rules_height(self) -> int:
        shown = self._shown
        if shown is None or not shown.rules:
            return 3 * self._row
        groups = len({row.lossless for row in shown.rules}) - 1
        return (len(shown.rules) + groups + 1) * self._row + 6

    def _totals_height(self, width: int) -> int:
        shown = self._shown
        if shown is None or not shown.totals:
            return 0
        return (len(shown.totals) + 1) * self._row + 10 + self._advice_height(width)

    def _advice_height(self, width: int) -> int:
        assert self._shown is not None
        metrics = QFontMetrics(theme.ui_font(0.92))
        flags = Qt.TextFlag.TextWordWrap.value
        return metrics.boundingRect(QRect(0, 0, width - 2 * PAD, 10_000), flags, self._shown.advice).height() + 4

    def _areas(self) -> tuple[QRect, QRect]:
        """Of the round and of the run."""
        if self._shown is not None and not self._shown.totals:
            return self.rect(), QRect()
        if self._is_wide():
            left = round(self.width() * 0.58)
            return QRect(0, 0, left, self.height()), QRect(left, 0, self.width() - left, self.height())
        first = self._rules_height()
        return QRect(0, 0, self.width(), first), QRect(0, first, self.width(), max(self.height() - first, 0))

    def _needed(self) -> int:
        if self._is_wide():
            _, right = self._areas()
            return max(self._rules_height(), self._totals_height(right.width()))
        return self._rules_height() + self._totals_height(self.width())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self._needed())

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        shown = self._shown
        if shown is None:
            return
        first, second = self._areas()
        self._paint_rules(painter, colours, first, shown)
        if shown.totals:
            if self._is_wide():
                painter.fillRect(second.left(), 0, 1, self.height(), colour(colours.line))
            else:
                painter.fillRect(0, second.top(), self.width(), 1, colour(colours.line))
            self._paint_totals(painter, colours, second.adjusted(1, 1, 0, 0), shown)

    def _name_width(self) -> int:
        longest = max((name for name in RULE_TABLE if not name.endswith("distribution")), key=len)
        return QFontMetrics(theme.mono_font(0.85)).horizontalAdvance(longest) + glyph_size() + 14

    def _paint_head(
        self, painter: QPainter, colours: Palette, area: QRect, texts: tuple[tuple[QRect, str], ...]
    ) -> None:
        painter.fillRect(area.left(), area.top(), area.width(), self._row, colour(colours.alternate))
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        for place, text in texts:
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, place.width())
            painter.drawText(place, _FLAT, shown)

    def _paint_name(
        self, painter: QPainter, colours: Palette, place: QRect, row: RuleRow | RunRow, background: QRect
    ) -> None:
        if row.in_force:
            painter.fillRect(background, colour(colours.selection))
            middle = place.top() + (place.height() - glyph_size()) / 2
            draw_glyph(painter, place.left(), middle, "play", colours.accent)
        is_rule = row.rule != GREEDY_DRAFTING
        weight = 600 if row.in_force else 400
        painter.setFont(theme.mono_font(0.85, weight) if is_rule else theme.ui_font(0.88, weight))
        painter.setPen(colour(colours.text))
        area = place.adjusted(glyph_size() + 4, 0, 0, 0)
        painter.drawText(
            area, _FLAT, painter.fontMetrics().elidedText(row.name, Qt.TextElideMode.ElideRight, area.width())
        )

    def _bar(self, painter: QPainter, colours: Palette, place: QRect, share: float, ink: str) -> None:
        thick = theme.line_height() - 8
        top = place.top() + (place.height() - thick) // 2
        painter.fillRect(place.left(), top, place.width(), thick, colour(colours.grid))
        painter.fillRect(place.left(), top, round(min(max(share, 0.0), 1.0) * place.width()), thick, colour(ink))

    def _columns(self, area: QRect) -> tuple[QRect, QRect, QRect, QRect, QRect]:
        """Name, formula, bar, number and emitted tokens, as a row at the area's top."""
        top, height, em = area.top(), self._row, theme.em()
        left, right = area.left() + PAD, area.right() + 1 - PAD
        number = QFontMetrics(theme.mono_font(0.85)).horizontalAdvance("0.0000 ")
        name = self._name_width()
        metrics = QFontMetrics(theme.ui_font(0.85))
        formula = max(metrics.horizontalAdvance(text) for text in (*FORMULAS, NO_FORMULA)) + 6
        rest = right - left - name - number - formula
        bar = min(max(rest // 5, 2 * em), 7 * em)
        at = [left, left + name, left + name + formula, left + name + formula + bar + 2]
        end = at[3] + number
        return (
            QRect(at[0], top, name - 4, height),
            QRect(at[1], top, formula, height),
            QRect(at[2], top, bar, height),
            QRect(at[3], top, number, height),
            QRect(end + GAP - 2, top, max(right - end - GAP + 2, 0), height),
        )

    def _paint_rules(self, painter: QPainter, colours: Palette, area: QRect, shown: Shown) -> None:
        if not shown.rules:
            painter.setFont(theme.ui_font(0.92))
            painter.setPen(colour(colours.text2))
            place = area.adjusted(PAD, 0, -PAD, 0)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, shown.reason)
            return
        name, formula, _, number, emitted = self._columns(area)
        heads = (
            (name, shown.place[:1].upper() + shown.place[1:]),
            (formula.united(number), "accepts a draft here" if shown.tested else "no test behind the drafts"),
            (emitted, "same draws: it emits"),
        )
        self._paint_head(painter, colours, area, heads)
        y, reference = self._row, False
        for row in shown.rules:
            if not row.lossless and not reference:
                reference = True
                self._paint_group(painter, colours, area, y)
                y += self._row
            self._paint_rule(painter, colours, area, y, row)
            y += self._row

    def _paint_group(self, painter: QPainter, colours: Palette, area: QRect, y: int) -> None:
        painter.setFont(theme.ui_font(0.85, 600))
        painter.setPen(colour(colours.danger))
        place = QRect(area.left() + PAD, area.top() + y, area.width() - 2 * PAD, self._row)
        painter.drawText(place, _FLAT, f"≠ {NOT_LOSSLESS}")
        width = painter.fontMetrics().horizontalAdvance(f"≠ {NOT_LOSSLESS}")
        middle = place.center().y()
        painter.fillRect(place.left() + width + 6, middle, max(place.width() - width - 6, 0), 1, colour(colours.grid))

    def _paint_rule(self, painter: QPainter, colours: Palette, area: QRect, y: int, row: RuleRow) -> None:
        name, formula, bar, number, emitted = (rect.translated(0, y) for rect in self._columns(area))
        self._paint_name(painter, colours, name, row, QRect(area.left(), name.top(), area.width(), self._row))
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        painter.drawText(formula, _FLAT, row.formula or NO_FORMULA)
        if row.probability is not None:
            self._bar(painter, colours, bar, row.probability, colours.accepted.fill)
        painter.setFont(theme.mono_font(0.85))
        painter.setPen(colour(colours.text))
        painter.drawText(number, _RIGHT, probability(row.probability))
        if row.kept is None:
            painter.setFont(theme.ui_font(0.85))
            painter.setPen(colour(colours.text2))
            text = "another drafter" if row.rule == GREEDY_DRAFTING else "couldn't be tried"
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, emitted.width())
            painter.drawText(emitted, _FLAT, shown)
        else:
            self._paint_emitted(painter, colours, emitted, row)

    def _paint_emitted(self, painter: QPainter, colours: Palette, place: QRect, row: RuleRow) -> None:
        """How many drafts were kept, their pieces as far as there is room, and always the token behind them."""
        painter.setFont(theme.mono_font(0.85))
        painter.setPen(colour(colours.text2))
        lead = f"{row.kept} "
        painter.drawText(place, _FLAT, lead)
        gap = 3
        dots = painter.fontMetrics().horizontalAdvance("…")
        x = float(place.left() + painter.fontMetrics().horizontalAdvance(lead))
        metrics = self.tokens.metrics
        baseline = round(place.top() + (place.height() - metrics.height()) / 2 + metrics.ascent())
        *kept, behind = row.tokens
        least = min(self.tokens.text_width(behind), (place.right() - x) * 0.6) + gap

        def put(token: int, ink: str, line: str) -> None:
            nonlocal x
            width = self.tokens.draw_text(painter, round(x), baseline, token, ink, max(int(place.right() - x), 0))
            painter.fillRect(round(x), place.bottom() - 2, round(width), 1, colour(line))
            x += width + gap

        for at, token in enumerate(kept):
            more = dots + gap if at < len(kept) - 1 else 0
            if x + self.tokens.text_width(token) + gap + more + least > place.right():
                painter.setPen(colour(colours.text2))
                painter.drawText(QRect(round(x), place.top(), dots + 1, place.height()), _FLAT, "…")
                x += dots + gap
                break
            put(token, colours.text, colours.accepted.fill)
        put(behind, colours.recovered.ink, colours.recovered.fill)

    def _paint_totals(self, painter: QPainter, colours: Palette, area: QRect, shown: Shown) -> None:
        left, right = area.left() + PAD, area.right() + 1 - PAD
        self._paint_head(painter, colours, area, ((QRect(left, area.top(), right - left, self._row), shown.title),))
        metrics = QFontMetrics(theme.mono_font(0.85))
        number = metrics.horizontalAdvance("0.0000 ")
        name = min(self._name_width(), (right - left) // 2)
        full = self._k + 1
        y = area.top() + self._row
        for row in shown.totals:
            place = QRect(left, y, name - 4, self._row)
            self._paint_name(painter, colours, place, row, QRect(area.left(), y, area.width(), self._row))
            bar = QRect(left + name, y, max(right - left - name - number - 4, 0), self._row)
            if row.tokens is not None:
                ink = colours.accepted.fill if row.lossless else colours.rolling
                self._bar(painter, colours, bar, row.tokens / full, ink)
            painter.setFont(theme.mono_font(0.85))
            painter.setPen(colour(colours.text))
            painter.drawText(QRect(right - number, y, number, self._row), _RIGHT, rate(row.tokens))
            if not row.lossless:
                self._note(painter, bar, "≠ not lossless", colours.danger, colours.danger_tint)
            elif row.rule == GREEDY_DRAFTING:
                self._note(painter, bar, "estimate", colours.text2, colours.alternate)
            y += self._row
        painter.setFont(theme.ui_font(0.92))
        painter.setPen(colour(colours.text))
        words = QRect(left, y + 6, right - left, self._advice_height(area.width()))
        painter.drawText(
            words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap, shown.advice
        )

    @staticmethod
    def _note(painter: QPainter, bar: QRect, text: str, ink: str, tint: str) -> None:
        """A word at the bar's right end, where there is room for it."""
        painter.setFont(theme.ui_font(0.85, 600))
        width = painter.fontMetrics().horizontalAdvance(text) + 8
        if width > bar.width():
            return
        place = QRect(bar.right() - width + 1, bar.top() + 1, width, bar.height() - 2)
        painter.fillRect(place, colour(tint))
        painter.setPen(colour(ink))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)

    # Tooltips

    def row_at(self, point: QPoint) -> RuleRow | RunRow | None:
        """The row under a point."""
        shown = self._shown
        if shown is None:
            return None
        first, second = self._areas()
        if first.contains(point):
            lines: list[RuleRow | RunRow | None] = [None]
            for row in shown.rules:
                if not row.lossless and (lines[-1] is None or lines[-1].lossless):
                    lines.append(None)
                lines.append(row)
            at = (point.y() - first.top()) // self._row
        else:
            lines = [None, *shown.totals]
            at = (point.y() - second.top() - 1) // self._row
        return lines[at] if 0 <= at < len(lines) else None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            row = self.row_at(event.pos())
            if row is not None:
                QToolTip.showText(event.globalPos(), row_tip(row, self._vocabulary), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)


def row_tip(row: RuleRow | RunRow, vocabulary: Vocabulary | None = None) -> str:
    """All that is known of a row, whole tokens included."""
    lines = []
    if row.rule == GREEDY_DRAFTING:
        lines.append("Not a rule but another drafter: it takes its argmax, under either token-wise lossless rule.")
    else:
        lines.append(RULE_TABLE[row.rule].sentence)
    if row.in_force:
        lines.append("The rule in force.")
    if isinstance(row, RunRow):
        if row.rule == GREEDY_DRAFTING:
            lines.append("An estimate: it takes the contexts of the sampled drafts.")
        lines.append(f"expected tokens a round: {rate(row.tokens)}, the token behind the kept drafts included")
        return plain_tip("Over the run", lines)
    if row.probability is not None:
        lines.append(f"accepts a draft here with probability {row.formula} = {probability(row.probability)}")
    if row.kept is not None:
        lines.append(f"with the same draws it keeps {plural(row.kept, 'draft')}")
        if vocabulary is not None:
            lines.append("and emits " + " ".join(visible_text(vocabulary, token) for token in row.tokens))
    return plain_tip("In this round", lines)


def spoken(shown: Shown) -> str:
    """What is shown, for assistive technology."""
    parts = [f"{row.name} accepts {probability(row.probability)}" for row in shown.rules] or [shown.reason]
    parts += [f"{row.name} {rate(row.tokens)} tokens a round" for row in shown.totals]
    return "; ".join([shown.place, *parts, shown.advice]).rstrip("; ")


class CounterfactualsPanel(CopiesTable):
    """A round under every rule and what each is worth over the run, with one sentence of advice; and the trial.

    Signals: `title_changed`; `help_wanted` (a page); `change_wanted` (live settings); `fork_wanted` (a ForkWish).
    """

    title_changed = Signal()
    help_wanted = Signal(str)
    change_wanted = Signal(dict)
    fork_wanted = Signal(object)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view, self._context = view, ""
        self._pages = Segments(
            "What if",
            ("rules", "trial"),
            (
                "The round under every rule with the same draws, and the whole run added up",
                "The test at the cursor again, with another u, temperature or rule",
            ),
        )
        self._pages.chosen.connect(self.show_page)
        self.trial = TrialPage(view, self)
        self.trial.hide()
        self.trial.changed.connect(self._tell_title)
        self.trial.fork_wanted.connect(self.fork_wanted)
        self.setObjectName("what-if")
        self.setAccessibleName("What if")
        self._needed = NeedDiagnostics(NEEDS, self)
        self._needed.wanted.connect(self._want_diagnostics)
        self._help = HelpButton(PAGE, "what the other rules would have done")
        self._help.wanted.connect(self.help_wanted)
        shelve(self, self._pages, self._help)
        self._scroll = QScrollArea(self)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setAccessibleName("What if")
        self.sheet = Sheet(self._scroll)
        self._scroll.setWidget(self.sheet)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._scroll)
        column.addWidget(self.trial)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()
        self._refresh()

    # What the dock and the window ask

    def title_name(self) -> str:
        return "What if"

    def title_context(self) -> str:
        """The position, and what the two tables are, or what is tried."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """The choice of the page, and the button that opens the help."""
        return [self._pages, self._help]

    def page(self) -> int:
        """The page shown: RULES or TRIAL."""
        return self._pages.current()

    def show_page(self, page: int) -> None:
        """Show another page."""
        self._pages.set_current(page)
        self.trial.setVisible(page == TRIAL)
        self._refresh()

    def set_fork_reason(self, reason: str | None) -> None:
        """Why no fork can be made now, None if one can."""
        self.trial.set_fork_reason(reason)

    def set_diagnostics(self, on: bool) -> None:
        """Whether the next round brings what this panel needs."""
        self._needed.set_on(on)

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.sheet.tokens.restyle(colours)
        self.sheet.update()
        self.trial.restyle()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 34, 14 * theme.line_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, 5 * theme.line_height())

    def table(self) -> Table:
        if self.page() == TRIAL:
            return self.trial.table()
        return what_if_table(self._view.run, self._view.round, self._view.position)

    def shown(self) -> Shown | None:
        """What is shown; None without a round, or where Diagnostics was never on."""
        return self.sheet.shown()

    def _want_diagnostics(self) -> None:
        self.change_wanted.emit({"diagnostics": True})

    # Following the view

    def _on_run_changed(self) -> None:
        run = self._view.run
        self.sheet.set_vocabulary(run.header.vocabulary if run is not None else None)
        if not self._view.telling:
            self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._needed.setGeometry(self.rect())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), colour(theme.current().base))
        if self._scroll.isHidden() and self._needed.isHidden() and self.trial.isHidden():
            draw_sentence(painter, self, EMPTY)

    def _refresh(self) -> None:
        if self.page() == TRIAL:
            self._needed.hide()
            self._scroll.hide()
            self.trial.refresh()
            self._tell_title()
            return
        run, record = self._view.run, self._view.round
        shown, needs = None, False
        if run is not None and record is not None:
            shown = self._read(record)
            needs = shown is None
        self._needed.setVisible(needs)
        self._scroll.setVisible(shown is not None)
        context = "" if shown is None else f"{shown.place} under every rule, with the same draws; below, the whole run"
        self._set_context(context)
        self.setAccessibleDescription("" if shown is None else spoken(shown))
        if self.isVisible():
            self.sheet.show_it(shown, run.header.settings.num_draft_tokens if run is not None else 0)
            self.update()

    def _tell_title(self) -> None:
        if self.page() == TRIAL:
            self._set_context(self.trial.words())

    def _set_context(self, context: str) -> None:
        if context != self._context:
            self._context = context
            self.title_changed.emit()

    def _read(self, record: Round) -> Shown | None:
        run = self._view.run
        assert run is not None
        reason = why_none(run, record)
        rules: tuple[RuleRow, ...] = ()
        if record.counterfactual is not None:
            rules = rule_rows(record, self._view.position)
        elif not reason and not run.alternatives.rounds:
            return None
        return Shown(
            place=place_text(record, self._view.position),
            tested=self._view.position < record.k,
            rules=rules,
            reason=reason or NOT_HERE,
            title=run_title(run),
            totals=run_rows(run) if run.alternatives.rounds else (),
            advice=advice(run.alternatives) if run.alternatives.rounds else "",
        )
