"""What the What-if panel says, apart from how it is painted: a round under every rule, and the run added up."""

from __future__ import annotations

from dataclasses import dataclass

from app.format import plural, visible_text
from app.panels.title_controls import Table, exact
from engine.alternatives import COMPARED, EXPECTED, GREEDY_DRAFTING, acceptance_probabilities
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.rules import RULE_TABLE

NAMES = {GREEDY_DRAFTING: "greedy drafting"}
_FORMS = {"sum_min": "Σ min(p, q)", "sum_prod": "Σ p·q", "q_argmax_p": "q(argmax p)", "block": "h"}
FORMULAS = (*_FORMS.values(), "p(argmax q)")
"""What predicts how often a draft is accepted."""

ORDER = ("sampler-match", "stochastic", "block", GREEDY_DRAFTING, *(n for n in COMPARED if RULE_TABLE[n].is_reference))
"""From top to bottom: what is lossless, then the reference rules."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule at a position and in its round. `probability` None: not known, or nothing is tested there.

    `kept` drafts and `tokens`, these and the one behind them, with the same draws; None and () where it wasn't tried.
    """

    rule: str
    formula: str
    probability: float | None
    kept: int | None
    tokens: tuple[int, ...]
    in_force: bool

    @property
    def name(self) -> str:
        return NAMES.get(self.rule, self.rule)

    @property
    def lossless(self) -> bool:
        return self.rule == GREEDY_DRAFTING or not RULE_TABLE[self.rule].is_reference


@dataclass(frozen=True, slots=True)
class RunRow:
    """Expected tokens a round of the run under one rule."""

    rule: str
    tokens: float | None
    in_force: bool

    @property
    def name(self) -> str:
        return NAMES.get(self.rule, self.rule)

    @property
    def lossless(self) -> bool:
        return self.rule == GREEDY_DRAFTING or not RULE_TABLE[self.rule].is_reference


def why_none(run: RecordedRun, record: Round) -> str:
    """Why a round's alternatives aren't there; "" where they are, or where only Diagnostics is lacking."""
    if record.counterfactual is not None:
        return ""
    if record.k == 0:
        return f"Round {record.index} drafted nothing, so there is nothing to test."
    if record.rule == "greedy-argmax":
        return "Not applicable: the target's sampler is greedy, so no rule but argmax has anything to draw."
    if record.distributions and record.distributions[0].q is None:
        return "The drafter reports no q, so the other rules can't be tried."
    return ""


def rule_rows(record: Round, position: int) -> tuple[RuleRow, ...]:
    """Every rule at a position (from 0) of a round that has its counterfactual."""
    seen = record.counterfactual
    tested = position < record.k
    draft = record.drafts[position] if tested else None
    forms = {n: p for n, _, p in acceptance_probabilities(draft, seen, position)} if draft is not None else {}
    rows = []
    for rule in ORDER:
        form = RULE_TABLE[rule].closed_form if rule in RULE_TABLE else None
        formula = _FORMS.get(form or "", "") if rule != GREEDY_DRAFTING else FORMULAS[-1]
        probability = forms.get(rule)
        if probability is None and form is not None and form != "block" and draft is not None:
            probability = getattr(draft, form)
        kept = seen.accepted(rule) if seen is not None and rule in COMPARED else None
        behind = seen.token(rule) if seen is not None and rule in COMPARED else None
        tokens = () if kept is None or behind is None else (*(d.token for d in record.drafts[:kept]), behind)
        rows.append(RuleRow(rule, formula, probability, kept, tokens, rule == record.rule))
    return tuple(rows)


def run_rows(run: RecordedRun) -> tuple[RunRow, ...]:
    """Every rule with an expected number of tokens, over the run's rounds that had drafts and a q."""
    rule = run[-1].rule if len(run) else ""
    return tuple(RunRow(name, run.alternatives.tokens_per_round(name), name == rule) for name in EXPECTED)


def place_text(record: Round, position: int) -> str:
    """`round 25, position 2`."""
    return f"round {record.index}, position {position + 1}"


def what_if_table(run: RecordedRun | None, record: Round | None, position: int) -> Table:
    """Both halves, one below the other."""
    lines: list[list[str]] = []
    if run is None or record is None:
        return [["rule", "lossless"]]
    if record.counterfactual is not None:
        here = f"accepted at position {position + 1}"
        lines.append(["rule", "lossless", "in force", "formula", here, f"kept in round {record.index}", "would emit"])
        for row in rule_rows(record, position):
            texts = " ".join(visible_text(run.header.vocabulary, token) for token in row.tokens)
            marks = ["yes" if row.lossless else "no", "yes" if row.in_force else ""]
            kept = "" if row.kept is None else str(row.kept)
            lines.append([row.name, *marks, row.formula, exact(row.probability), kept, texts])
    if run.alternatives.rounds:
        lines.append(["rule", "lossless", "in force", "expected tokens a round", "rounds"])
        for total in run_rows(run):
            marks = ["yes" if total.lossless else "no", "yes" if total.in_force else ""]
            name = f"{total.name} (an estimate)" if total.rule == GREEDY_DRAFTING else total.name
            lines.append([name, *marks, exact(total.tokens), str(run.alternatives.rounds)])
    return lines


def run_title(run: RecordedRun) -> str:
    return f"Expected tokens a round, {plural(run.alternatives.rounds, 'round')} with drafts"
