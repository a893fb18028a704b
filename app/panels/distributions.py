"""p and q at the position under the cursor, as paired bars with their numbers, after any stage of the chain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app import theme
from app.format import count, probability, significant, visible_text
from app.panels.bars import BarRow, BarTable, PositionBars
from app.panels.chips import chip_styles
from app.panels.residual_text import ResidualName, residual_of
from app.panels.title_controls import Segments, Swatches, TitleCombo, exact, shelve
from app.view import View
from engine.rounds import Distributions, Floats, Round

FINAL = "final"
TOP_CHOICES: tuple[tuple[str, int | None], ...] = (
    ("top 5", 5),
    ("top 10", 10),
    ("top 15", 15),
    ("top 20", 20),
    ("all kept", None),
)
IDENTITY_TOLERANCE = 1e-4
"""Σ min and Z are float32 sums over the vocabulary, taken apart; a larger difference is said in red."""

WIDE = 58
"""Width in em from which on the whole identity fits into the title, beside the controls."""

PLAIN = ResidualName()

EMPTY = "The target's p and the drafter's q appear here with the first round."
NOT_RECORDED = "This run keeps no distributions: it was made with the record off."


def offered_stages(record: Distributions) -> list[str]:
    """`final`, then the stages that either model recorded, in the order they ran."""
    names = [name for name, _ in record.p_stages]
    for at, (name, _) in enumerate(record.q_stages):
        if name not in names:
            before = [n for n, _ in record.q_stages[:at] if n in names]
            names.insert(names.index(before[-1]) + 1 if before else 0, name)
    return [FINAL, *names]


def stage_values(
    stages: Sequence[tuple[str, Floats]], final: Floats, order: Sequence[str], wanted: str
) -> tuple[Floats, str]:
    """A model's values after a stage and that stage's name: the nearest earlier one where it lacks the stage."""
    if wanted == FINAL:
        return final, FINAL
    kept = dict(stages)
    names = [name for name in order if name != FINAL]
    for name in reversed(names[: names.index(wanted) + 1]):
        if name in kept:
            return kept[name], name
    return final, FINAL


def rest_of(shown: Floats, support: int | None) -> float:
    """The mass of the tokens not shown: exactly 0 where the shown ones are the whole support, if that is known."""
    if support is not None and int(np.count_nonzero(shown > 0)) >= support:
        return 0.0
    return max(1.0 - float(np.sum(shown, dtype=np.float64)), 0.0)


def rest_text(rest: float) -> str:
    """A rest's mass; what float32 sums can't tell from 0 is shown so."""
    return "<1e-6" if 0 < rest < 1e-6 else probability(rest)


def chosen_rows(record: Distributions, top_n: int, kept: Sequence[int]) -> list[int]:
    """Rows of the record to show: its first `top_n`, then the tokens that must be there."""
    rows = list(range(min(top_n, len(record.ids))))
    for token in kept:
        found = np.flatnonzero(record.ids == token)
        if found.size and int(found[0]) not in rows:
            rows.append(int(found[0]))
    return rows


def identity(sum_min: float | None, mass: float | None, name: ResidualName = PLAIN) -> tuple[str, bool]:
    """`Σ min(p, q) = 0.7361 = 1 − Z, Z = 0.2639` from two numbers that were computed apart, and if they disagree.

    Where the rule's residual isn't the plain one, its mass is named and compared with nothing.
    """
    if not name.is_token_wise and mass is not None:
        text = f"{name.mass} = Σ {name.formula} = {significant(mass)}"
        return text + (f", Σ min(p, q) = {significant(sum_min)}" if sum_min is not None else ""), False
    if sum_min is None:
        return (f"Z = {significant(mass)}; Diagnostics adds Σ min(p, q)" if mass is not None else ""), False
    if mass is None:
        return f"Σ min(p, q) = {significant(sum_min)}", False
    bad = abs(sum_min - (1 - mass)) > IDENTITY_TOLERANCE
    return f"Σ min(p, q) = {significant(sum_min)} {'≠' if bad else '='} 1 − Z, Z = {significant(mass)}", bad


class DistributionsPanel(PositionBars):
    """p over q for the tokens that matter; the drafted and the emitted one are always there.

    Signals: `title_changed`, when `title_name` or `title_context` gives another text.
    """

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(view, parent)
        self._wanted_stage = FINAL
        self._title = ("p and q", "")
        self._short = ""
        self.setObjectName("distributions")
        self.setAccessibleName("Distributions p and q")
        self._swatches = Swatches((("p", "p target"), ("q", "q draft")))
        self._axis = Segments(
            "Axis", ("linear", "log"), ("Bars on a linear axis", "Bars on a logarithmic axis; 0 has no bar there")
        )
        self._top = TitleCombo("Number of tokens", "How many tokens to show; the rest is one bar")
        self._stage = TitleCombo("Stage of the sampler chain", "")
        shelve(self, *self.title_widgets())
        self._axis.chosen.connect(self._on_axis)
        self._top.chosen.connect(self._options.set_top_n)
        self._stage.chosen.connect(self._on_stage)
        self._top.set_entries(TOP_CHOICES, self._options.top_n)
        self._offer_stages(None)
        self._options.changed.connect(self._on_options)
        self._follow()

    # What the dock asks

    def title_name(self) -> str:
        """`p and q, position 3`."""
        return self._title[0]

    def title_context(self) -> str:
        """The identity with its numbers, and what is shown instead of a stage that a model lacks.

        A narrow panel is brief: the title of the residual beside it tells Z, so the sum is enough while both agree.
        """
        narrow = self.width() < theme.em() * WIDE
        return self._short if narrow and self._short else self._title[1]

    def title_widgets(self) -> list[QWidget]:
        """Legend, axis, number of tokens, stage."""
        return [self._swatches, self._axis, self._top, self._stage]

    # Choices

    def set_stage(self, stage: str) -> None:
        """Show p and q after this stage where it was recorded, else the final ones."""
        self._wanted_stage = stage
        self._refresh()

    def _on_stage(self, stage: object) -> None:
        self.set_stage(str(stage))

    def _on_axis(self, index: int) -> None:
        self._options.set_log(index == 1)

    def _on_options(self) -> None:
        self._axis.set_current(int(self._options.log))
        self._top.set_entries(TOP_CHOICES, self._options.top_n)
        self._refresh()

    def _offer_stages(self, record: Distributions | None) -> str:
        stages = offered_stages(record) if record is not None else [FINAL]
        current = self._wanted_stage if self._wanted_stage in stages else FINAL
        self._stage.set_entries([(f"stage: {name}", name) for name in stages], current)
        only = len(stages) == 1
        self._stage.setToolTip(
            "Diagnostics records p and q after every stage of the chain; this position holds the final ones"
            if only
            else "Show p and q after this stage of the sampler chain"
        )
        return current

    # Following the view

    def _refresh(self) -> None:
        record, data, position = self._under_cursor()
        # Hidden, only what the title says is kept up to date.
        if record is None:
            self._set_title("p and q", "")
            self.set_table(BarTable(sentence=EMPTY))
        elif data is None:
            self._set_title(f"p and q, position {position + 1}", "")
            self.set_table(BarTable(sentence=NOT_RECORDED))
        else:
            stage = self._offer_stages(data)
            self._describe(record, data, position, stage)
            if self.isVisible():
                self.set_table(self._build(record, data, position, stage))

    def _describe(self, record: Round, data: Distributions, position: int, stage: str) -> None:
        name = "p and q" if data.q is not None else "p"
        parts, short = [], ""
        if data.q is not None:
            whole, bad = self._identity(record, data, position)
            text = whole.replace("min(p, q)", "min")
            if not bad and stage == FINAL and text.startswith("Σ min = "):
                short = text.partition(" = 1 − Z")[0]
            parts.append(text if stage == FINAL or not text else f"final: {text}")
        elif position < record.k:
            parts.append("the drafter reports no q")
        else:
            parts.append("behind the drafts: nothing was proposed here" if record.k else "nothing was drafted")
            short = "behind the drafts" if record.k and stage == FINAL else ""
        parts += self._stand_ins(data, stage)
        self._set_title(f"{name}, position {position + 1}", "; ".join(part for part in parts if part), short)

    @staticmethod
    def _identity(record: Round, data: Distributions, position: int) -> tuple[str, bool]:
        return identity(record.drafts[position].sum_min, data.residual_mass, residual_of(record, position))

    @staticmethod
    def _stand_ins(data: Distributions, stage: str) -> list[str]:
        order = offered_stages(data)
        sides = [("p", data.p_stages, data.p)]
        if data.q is not None:
            sides.append(("q", data.q_stages, data.q))
        shown = [(name, stage_values(stages, final, order, stage)[1]) for name, stages, final in sides]
        return [f"{name} has no {stage}: shown after {instead}" for name, instead in shown if instead != stage]

    def _set_title(self, name: str, context: str, short: str = "") -> None:
        if (name, context) != self._title:
            self._title, self._short = (name, context), short
            self.title_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        before, now = (width < theme.em() * WIDE for width in (event.oldSize().width(), event.size().width()))
        if before != now:
            self.title_changed.emit()

    # Rows

    def _build(self, record: Round, data: Distributions, position: int, stage: str) -> BarTable:
        order, colours = offered_stages(data), theme.current()
        p, _ = stage_values(data.p_stages, data.p, order, stage)
        q = stage_values(data.q_stages, data.q, order, stage)[0] if data.q is not None else None
        drafted = record.drafts[position].token if position < record.k else None
        emitted = next((e for e in record.emitted if e.position == position), None)
        kept = [token for token in (drafted, emitted.token if emitted else None) if token is not None]
        chosen = chosen_rows(data, self._options.most, kept)
        columns, inks = ("p", "q") if q is not None else ("p",), (colours.p, colours.q)[: 2 if q is not None else 1]
        rows = [self._row(record, data, p, q, index, position) for index in chosen]
        others = data.vocab_size - len(chosen)
        if others:
            rests = [rest_of(p[chosen], data.p_support if stage == FINAL else None)]
            if q is not None:
                rests.append(rest_of(q[chosen], data.q_support if stage == FINAL else None))
            rows.append(
                BarRow(
                    values=tuple(rests),
                    cells=tuple(rest_text(rest) for rest in rests),
                    label=f"{count(others)} other{'s' if others > 1 else ''}",
                    hollow=True,
                    pinned=True,
                    tip=(
                        "All other tokens together",
                        *(f"{n} {exact(r)}" for n, r in zip(columns, rests, strict=True)),
                    ),
                )
            )
        foot, bad = ("", False)
        if q is not None:
            foot, bad = self._identity(record, data, position)
        return BarTable(
            rows=tuple(rows),
            columns=columns,
            inks=inks,
            log=self._options.log,
            foot=foot,
            foot_bad=bad,
            copied=self._copied(rows, columns, stage),
        )

    def _row(
        self, record: Round, data: Distributions, p: Floats, q: Floats | None, index: int, position: int
    ) -> BarRow:
        token, styles = int(data.ids[index]), chip_styles(theme.current())
        drafted = record.drafts[position] if position < record.k else None
        emitted = next((e for e in record.emitted if e.position == position and e.token == token), None)
        glyph, ink, tint, words = None, "", None, []
        if emitted is not None:
            style = styles[emitted.source]
            glyph, ink, tint = style.glyph, style.glyph_ink, style.tint or theme.current().target_draw.tint
            words.append(f"emitted: {style.label}")
        if drafted is not None and drafted.token == token:
            # A rejected draft that is drawn again all the same keeps the glyph of what came out.
            style = styles[drafted.fate]
            glyph, ink = (glyph, ink) if emitted is not None else (style.glyph, style.glyph_ink)
            tint = theme.current().selection
            words.insert(0, f"drafted: {style.label}")
        values = (float(p[index]),) if q is None else (float(p[index]), float(q[index]))
        text = visible_text(self._view.run.header.vocabulary, token) if self._view.run is not None else ""
        numbers = ", ".join(f"{name} {exact(value)}" for name, value in zip("pq", values, strict=False))
        return BarRow(
            values=values,
            cells=tuple(probability(value) for value in values),
            token=token,
            glyph=glyph,
            glyph_ink=ink,
            tint=tint,
            marked=bool(words),
            tip=(f"Token {token}", text, numbers, *words),
        )

    @staticmethod
    def _copied(rows: Sequence[BarRow], columns: Sequence[str], stage: str) -> list[list[str]]:
        lines = [["id", "token", *columns, f"mark (stage {stage})"]]
        for row in rows:
            mark = "; ".join(row.tip[3:]) if row.token is not None else "sum"
            name = row.tip[1] if row.token is not None else row.label
            lines.append(["" if row.token is None else str(row.token), name, *(exact(v) for v in row.values), mark])
        return lines
