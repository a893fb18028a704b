"""What a rule's residual is called at a position, and whether its mass can be compared with 1 - sum min(p, q)."""

from __future__ import annotations

from dataclasses import dataclass

from app.format import significant
from engine.rounds import Round


@dataclass(frozen=True, slots=True)
class ResidualName:
    """`formula` of what is normalised, the letter of its `mass`, and what is to know of it beside, or "".

    `is_token_wise`: its mass is 1 - sum min(p, q), which holds for no rule that scales p or takes another q.
    """

    formula: str = "relu(p − q)"
    mass: str = "Z"
    note: str = ""
    is_token_wise: bool = True


def residual_of(record: Round, position: int) -> ResidualName:
    """The residual of a drafted position (from 0) under the round's rule."""
    if record.rule == "block":
        before = record.drafts[position - 1].block_p if position else 1.0
        note = f"P = {significant(before)} of the drafts before" if before is not None else ""
        return ResidualName("relu(P·p − q)", "S", note, False)
    if record.rule == "raw-q":
        return ResidualName("relu(p − q′)", "Z", "q′: before the drafter's temperature and filters", False)
    return ResidualName()
