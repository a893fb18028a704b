"""The residual relu(p - q)/Z at the position under the cursor, its mass, and the token that was drawn from it."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QWidget

from app import theme
from app.format import count, probability, significant, visible_text
from app.panels.bars import BarRow, BarTable, PositionBars
from app.panels.chips import chip_styles
from app.panels.distributions import IDENTITY_TOLERANCE, NOT_RECORDED, PLAIN, rest_of, rest_text
from app.panels.residual_text import ResidualName, residual_of
from app.panels.title_controls import exact
from app.view import View
from engine.rounds import Distributions, Round

EMPTY = "The residual, which replaces a rejected draft, appears here with the first round."
NO_RESIDUAL = "Empty: p = q, so there is no residual."
DEGENERATE = "Empty: p = q up to rounding. The token was drawn from p (degenerate residual fallback)."


def reason_without(record: Round, data: Distributions, position: int) -> str:
    """Why there is no residual at a position, or "" if there is one."""
    if position >= record.k:
        place = "behind the drafts" if record.k else "without a draft"
        return f"Position {position + 1} is {place}: its token is drawn from p itself, so there is no residual."
    if data.q is None:
        return "The drafter reports no q, so there is no residual."
    if data.residual is None or not data.residual_mass:
        fell_back = any(e.source == "degenerate-fallback" for e in record.emitted if e.position == position)
        return DEGENERATE if fell_back else NO_RESIDUAL
    return ""


def reason_not_drawn(record: Round, position: int) -> str:
    """Why no token was drawn from a residual that is there, or "" if one was."""
    if any(e.source == "recovered" for e in record.emitted if e.position == position):
        return ""
    fate = record.drafts[position].fate
    if fate == "accepted":
        return "not drawn from: the draft was accepted"
    if fate == "ignored" and record.rule == "block":
        return "not drawn from: a shorter prefix was kept"
    if fate == "ignored":
        return "not drawn from: this draft was not tested"
    source = next((e.source for e in record.emitted if e.position == position), "")
    if source == "greedy":
        return f"not drawn from: {record.rule} emits the target's argmax"
    if source == "target-draw":
        return f"not drawn from: {record.rule} emits x, a fresh draw from p"
    if source == "degenerate-fallback":
        return "not drawn from: degenerate residual fallback, a draw from p"
    return f"not drawn from under {record.rule}"


def mass_text(mass: float, sum_min: float | None, name: ResidualName = PLAIN) -> str:
    """`relu(p − q)/Z, Z = 0.2639 = 1 − Σ min`, the last part only where Σ min was computed and it must hold."""
    text = f"{name.formula}/{name.mass}, {name.mass} = {significant(mass)}"
    if not name.is_token_wise:
        return f"{text}, {name.note}" if name.note else text
    if sum_min is None:
        return text
    equal = "=" if abs(sum_min - (1 - mass)) <= IDENTITY_TOLERANCE else "≠"
    return f"{text} {equal} 1 − Σ min, Σ min = {significant(sum_min)}"


class ResidualPanel(PositionBars):
    """The residual's largest tokens as bars. Signals: `title_changed`, when `title_context` gives another text."""

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(view, parent)
        self._context = ""
        self.setObjectName("residual")
        self.setAccessibleName("Residual")
        self._options.changed.connect(self._refresh)
        self._follow()

    def title_name(self) -> str:
        return "Residual"

    def title_context(self) -> str:
        """The mass Z and Σ min with their numbers, and why nothing was drawn if so."""
        return self._context

    def _refresh(self) -> None:
        record, data, position = self._under_cursor()
        if record is None or data is None:
            self._set_context("")
            self.set_table(BarTable(sentence=EMPTY if record is None else NOT_RECORDED))
            return
        reason = reason_without(record, data, position)
        if reason:
            self._set_context("Z = 0: empty" if data.residual_mass == 0 else "not applicable")
            self.set_table(BarTable(sentence=reason))
            return
        assert data.residual_mass is not None
        name = residual_of(record, position)
        mass = mass_text(data.residual_mass, record.drafts[position].sum_min, name)
        parts = [mass, reason_not_drawn(record, position)]
        self._set_context("; ".join(part for part in parts if part))
        if self.isVisible():
            self.set_table(self._build(record, data, position, parts[1]))

    def _set_context(self, text: str) -> None:
        if text != self._context:
            self._context = text
            self.title_changed.emit()

    def _build(self, record: Round, data: Distributions, position: int, not_drawn: str) -> BarTable:
        residual, colours = data.residual, theme.current()
        assert residual is not None
        run = self._view.run
        drawn = next((e for e in record.emitted if e.position == position and e.source == "recovered"), None)
        order = [int(i) for i in np.argsort(-residual, kind="stable") if residual[i] > 0]
        chosen = order[: self._options.most]
        chosen += [i for i in order[len(chosen) :] if drawn is not None and data.ids[i] == drawn.token]
        style = chip_styles(colours)["recovered"]
        rows, copied = [], [["id", "token", "residual", "mark"]]
        for index in chosen:
            token, value = int(data.ids[index]), float(residual[index])
            is_drawn = drawn is not None and token == drawn.token
            text = visible_text(run.header.vocabulary, token) if run is not None else ""
            rows.append(
                BarRow(
                    values=(value,),
                    cells=(probability(value),),
                    token=token,
                    glyph=style.glyph if is_drawn else None,
                    glyph_ink=style.glyph_ink if is_drawn else "",
                    tint=style.tint if is_drawn else None,
                    note="drawn" if is_drawn else "",
                    marked=is_drawn,
                    tip=(f"Token {token}", text, f"residual {exact(value)}"),
                )
            )
            copied.append([str(token), text, exact(value), "drawn" if is_drawn else ""])
        others = (data.residual_support or len(order)) - len(chosen)
        if others > 0:
            rest, label = rest_of(residual[chosen], data.residual_support), f"{count(others)} other"
            label += "s" if others > 1 else ""
            tip = ("All other tokens with p > q together", f"residual {exact(rest)}")
            rows.append(BarRow((rest,), (rest_text(rest),), label, hollow=True, pinned=True, tip=tip))
            copied.append(["", label, exact(rest), "sum"])
        return BarTable(
            rows=tuple(rows),
            columns=("",),
            inks=(colours.recovered.fill,),
            log=self._options.log,
            foot=not_drawn[:1].upper() + not_drawn[1:],
            copied=copied,
        )
