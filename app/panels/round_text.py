"""What the round detail says, in words and numbers, apart from how it is painted: one cell a position."""

from __future__ import annotations

from dataclasses import dataclass

from app.format import comparison, plural, probability, significant
from app.panels.residual_text import residual_of
from engine.recording import RecordedRun
from engine.rounds import Draft, Emitted, Round

YES, NO = "yes", "no"

Part = str | int
"""A piece of a line: words, or a token by its id."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test written out: `left` (`0.9629 × 0.2955 = 0.2845`), `right` (`≤ 0.2237 ?`) and `verdict`.

    `brief` is the left side in short, for a cell that is low and narrow (`u·q 0.2845`, beside the numbers above it).
    """

    left: tuple[Part, ...]
    right: tuple[Part, ...]
    verdict: str
    brief: tuple[Part, ...] = ()
    brief_right: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from 0 to `full`: filled up to `fill`, hatched beyond it if `hatched`; marks as fractions of it.

    `fill`, `tick` and `needle` lie in [0, 1]; None: without.
    """

    fill: float
    hatched: bool
    tick: float | None = None
    needle: float | None = None


@dataclass(frozen=True, slots=True)
class DraftCell:
    """One drafted position: fate, the word for it, bar (None: nothing to show), numbers, test or why there is none."""

    position: int
    token: int
    fate: str
    verdict: str
    bar: Bar | None
    numbers: tuple[str, ...]
    test: Test | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmitCell:
    """What the round emitted: tokens with their sources, what the last one is, and its numbers."""

    emitted: tuple[Emitted, ...]
    source: str
    headline: tuple[Part, ...]
    notes: tuple[str, ...]
    numbers: tuple[str, ...]


def is_stochastic(record: Round) -> bool:
    """True where the drafts met a test of u·q against p."""
    return any(draft.threshold is not None for draft in record.drafts) or record.rule == "stochastic"


_BLOCK = "keep the longest prefix with u ≤ h, its P = min(P·p/q, 1). Bar 0 … 1, filled to h, ▾ u"
_STOCHASTIC = "Bar 0 … q(d), tick p(d), ▾ u·q(d)"
_ARGMAX = ("greedy-argmax", "argmax-vs-argmax")


def fate_word(record: Round, fate: str) -> str:
    """What became of a draft, in a word; block verification looks at all of them."""
    return {"ignored": "not kept" if record.rule == "block" else "not tested"}.get(fate, fate)


def how_to_read(record: Round) -> str:
    """The rule's test and the bar's legend, for the title."""
    if record.k == 0:
        return "no drafts: plain decoding"
    if record.rule == "block":
        return _BLOCK
    if record.rule == "missing-support-check":
        return f"accept iff u·q(d) ≤ p(d), in half precision and p(d) = 0 included. {_STOCHASTIC}"
    if record.rule == "raw-q":
        return f"accept iff p(d) > 0 and u·q′(d) ≤ p(d), q′ before temperature and filters. {_STOCHASTIC}"
    if is_stochastic(record):
        return f"accept iff p(d) > 0 and u·q(d) ≤ p(d). {_STOCHASTIC}"
    if record.rule in _ARGMAX:
        return "accept iff d = argmax p. Bar 0 … 1, filled to p(d)"
    if all(draft.match is None for draft in record.drafts):
        return record.rule_label
    return "accept iff d = x, x a fresh draw from p. Bar 0 … 1, filled to p(d)"


def counts(record: Round) -> str:
    """`k 4 · tested 3 · accepted 2 · rule stochastic: Stochastic is on`, what changed, or that it isn't lossless."""
    changed = "".join(f"changed here: {name} = {value} · " for name, value in record.changed.items())
    lossless = "" if record.distribution_preserving else ", not lossless"
    return (
        f"{changed}k {record.k} · tested {record.tested} · accepted {record.accepted} · "
        f"rule {record.rule}{lossless}: {record.rule_reason.rstrip('.')}"
    )


def _fraction(value: float | None, full: float | None) -> float | None:
    if value is None or full is None or full <= 0:
        return None
    return min(max(value / full, 0.0), 1.0)


def _bar(record: Round, draft: Draft) -> Bar | None:
    if record.rule == "block":
        h = draft.block_h
        return None if h is None else Bar(min(max(h, 0.0), 1.0), True, h if h < 1 else None, draft.u)
    if draft.threshold is not None:
        below = _fraction(draft.p, draft.q)
        if below is None:
            return None
        return Bar(below, True, below if below < 1 else None, _fraction(draft.threshold, draft.q))
    return Bar(min(max(draft.p, 0.0), 1.0), False) if draft.p is not None else None


def _test(record: Round, draft: Draft) -> Test | None:
    if record.rule == "block":
        return _block_test(draft)
    verdict = YES if draft.fate == "accepted" else NO
    if draft.threshold is not None:
        if not draft.p and record.rule != "missing-support-check":
            return Test(
                (f"p(d) = {significant(draft.p)}",), ("> 0 ?",), verdict, (f"p {significant(draft.p)}",), ("> 0 ?",)
            )
        left, right = comparison(draft.threshold, draft.p)
        product = f"{significant(draft.u)} × {significant(draft.q)} = {left}"
        name = "u·q′" if record.rule == "raw-q" else "u·q"
        return Test((product,), (f"≤ {right} ?",), verdict, (f"{name} {left}",), (f"≤ p {right} ?",))
    if draft.match is not None:
        name = "argmax p" if record.rule in _ARGMAX else "x"
        return Test(
            ("d ", draft.token),
            (f"= {name} ", draft.match, " ?"),
            verdict,
            ("d ", draft.token),
            ("= ", draft.match, " ?"),
        )
    return None


def _block_test(draft: Draft) -> Test | None:
    """The prefix up to a draft has a test of its own; it may fail, and a longer one be kept all the same."""
    if draft.u is None or draft.block_h is None:
        return None
    if draft.block_h <= 0:
        return Test((f"h = {significant(draft.block_h)}",), ("> 0 ?",), NO)
    left, right = comparison(draft.u, draft.block_h)
    return Test((f"u {left}",), (f"≤ h {right} ?",), YES if draft.u <= draft.block_h else NO, (f"u {left}",))


def _numbers(record: Round, draft: Draft) -> tuple[str, ...]:
    pairs = [("q", draft.q), ("p", draft.p)]
    pairs += [("P", draft.block_p)] if record.rule == "block" else [("u", draft.u)]
    if record.rule == "raw-q":
        pairs[0] = ("q′", draft.q)
    return tuple(f"{name} {significant(value)}" for name, value in pairs if value is not None)


def _why_ignored(record: Round) -> tuple[str, ...]:
    rejected = record.rejected_at
    if record.rule == "block" and rejected is not None:
        kept = (
            f"the first {rejected} are kept:" if rejected > 1 else "the first is kept:" if rejected else "none is kept:"
        )
        return (kept, "u > h here")
    if rejected is None:
        return ("behind the token that ended the run:", "no test, no u drawn" if is_stochastic(record) else "no test")
    drawn = "no u drawn" if is_stochastic(record) else "no x drawn" if record.rule not in _ARGMAX else ""
    return (f"behind the rejection at {rejected + 1}:", ", ".join(part for part in ("no test", drawn) if part))


def draft_cell(record: Round, position: int) -> DraftCell:
    """The cell of a drafted position (from 0)."""
    draft = record.drafts[position]
    verdict = fate_word(record, draft.fate)
    if draft.fate == "ignored":
        numbers = (f"q {significant(draft.q)}",) if draft.q is not None else ()
        if record.rule == "block" and draft.block_h is not None and draft.block_p is not None:
            numbers = (*numbers, f"P {significant(draft.block_p)}", f"h {significant(draft.block_h)}")
        return DraftCell(position, draft.token, draft.fate, verdict, None, numbers, None, _why_ignored(record))
    notes = () if draft.q is not None else ("drafter reported no q",)
    test = _test(record, draft)
    if record.rule == "block" and test is not None and test.verdict == NO and draft.fate == "accepted":
        notes = (*notes, "kept with a longer prefix")
    if test is None:
        notes = (*notes, "the test was not recorded")
    return DraftCell(
        position, draft.token, draft.fate, verdict, _bar(record, draft), _numbers(record, draft), test, notes
    )


def _residual_mass(record: Round, position: int) -> float | None:
    if position < len(record.distributions):
        mass = record.distributions[position].residual_mass
        if mass is not None:
            return mass
    draft = record.drafts[position]
    known = residual_of(record, position).is_token_wise and draft.sum_min is not None
    return 1 - draft.sum_min if known and draft.sum_min is not None else None


def _ended(run: RecordedRun, record: Round) -> tuple[str, ...]:
    last = record.emitted[-1].token if record.emitted else -1
    if last in run.header.vocabulary.end_ids:
        return ("the last token ends the run",)
    if run.end is not None and record.index == len(run) - 1:
        return (f"{run.end.finish_reason}: {run.end.notice}" if run.end.notice else run.end.finish_reason,)
    return ("no token was left to emit",)


def emit_cell(run: RecordedRun, record: Round) -> EmitCell:
    """The round's last cell: what came out, and from which mass."""
    last = record.emitted[-1] if record.emitted else None
    if last is None:
        return EmitCell((), "", ("nothing emitted",), (), ())
    drawn = (f"drawn with {significant(last.probability)}",) if last.probability is not None else ()
    replaced: tuple[Part, ...] = ()
    if last.position < record.k and last.source != "accepted":
        replaced = (" in place of ", record.drafts[last.position].token)
    match last.source:
        case "recovered":
            mass = _residual_mass(record, last.position)
            name = residual_of(record, last.position)
            numbers = ((f"{name.mass} {significant(mass)}",) if mass is not None else ()) + drawn
            formula = name.formula.replace(" ", "\u00a0")
            notes: tuple[str, ...] = (f"drawn from {formula}/{name.mass}",)
            return EmitCell(record.emitted, last.source, ("recovered", *replaced), notes, numbers)
        case "degenerate-fallback":
            notes = ("relu(p\u00a0−\u00a0q) has no mass:", "drawn from p instead")
            return EmitCell(record.emitted, last.source, ("fallback", *replaced), notes, drawn)
        case "bonus":
            notes = (f"all {plural(record.k, 'draft')} accepted:" if record.k > 1 else "the draft was accepted:",)
            return EmitCell(record.emitted, last.source, ("bonus",), (*notes, f"drawn from p at {record.k + 1}"), drawn)
        case "target-draw":
            notes = ("drawn from p",) if record.k == 0 else ("the x that d was compared with",)
            if record.k and record.rule == "resample-from-p":
                notes = ("drawn from p, not from the residual",)
            return EmitCell(record.emitted, last.source, ("target draw", *replaced), notes, drawn)
        case "greedy":
            return EmitCell(record.emitted, last.source, ("argmax p", *replaced), ("no randomness drawn",), ())
    return EmitCell(record.emitted, last.source, ("no further token",), _ended(run, record), ())


def tip_lines(record: Round, position: int) -> list[str]:
    """Everything of a draft, a line each, for the tooltip."""
    draft = record.drafts[position]
    names = ["q", "p", "u", "threshold", "sum_min", "sum_prod", "p_argmax_q", "q_argmax_p", "p_entropy", "q_entropy"]
    if record.rule == "block":
        names[3:4] = ["block_p", "block_h"]
    shown = {
        "threshold": "u·q",
        "block_p": "P",
        "block_h": "h",
        "sum_min": "Σ min",
        "sum_prod": "Σ p·q",
        "p_argmax_q": "p(argmax q)",
    }
    shown |= {"q_argmax_p": "q(argmax p)", "p_entropy": "entropy p", "q_entropy": "entropy q"}
    values = {name: getattr(draft, name) for name in names}
    return [f"{shown.get(name, name)} {significant(value, 6)}" for name, value in values.items() if value is not None]


def copied(run: RecordedRun, record: Round) -> str:
    """The round's positions as tab-separated text under a header line."""
    vocabulary = run.header.vocabulary
    compared = "h" if record.rule == "block" else "u·q"
    lines = [f"position\ttoken\ttext\tfate\tq\tp\tu\t{compared}\tmatch\temitted\tsource"]
    by_position = {e.position: e for e in record.emitted}
    for position in range(max(record.k, max(by_position, default=-1) + 1)):
        draft = record.drafts[position] if position < record.k else None
        emitted = by_position.get(position)
        cells: list[str] = [str(position + 1)]
        cells += [str(draft.token), repr(vocabulary.text_of(draft.token))[1:-1], draft.fate] if draft else ["", "", ""]
        numbers = (draft.q, draft.p, draft.u, draft.threshold) if draft else (None,) * 4
        cells += ["" if value is None else repr(value) for value in numbers]
        cells += [str(draft.match) if draft and draft.match is not None else ""]
        cells += [str(emitted.token), emitted.source] if emitted else ["", ""]
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def spoken(run: RecordedRun, record: Round, position: int) -> str:
    """One position as a sentence, for assistive technology."""
    text = run.header.vocabulary.text_of
    if position >= record.k:
        last = record.emitted[-1] if record.emitted else None
        return f"Round {record.index}: emitted {text(last.token)}, {last.source}" if last else ""
    draft = record.drafts[position]
    fate = fate_word(record, draft.fate)
    return (
        f"Round {record.index}, position {position + 1}: {text(draft.token)} {fate}, "
        f"q {probability(draft.q)}, p {probability(draft.p)}"
    )
