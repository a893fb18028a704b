"""The first token in which two recorded runs differ, and the draw or the numbers that parted them. No MLX.

Tokens are aligned by their index in the emitted stream. Up to the first difference both runs stood before the same
context, so what decided that one token on either side is what parted them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.recording import RecordedRun
from engine.rounds import Distributions, Draft, Emitted, ModelInfo, Round
from engine.settings import SamplerSettings
from engine.text import Vocabulary

NUMERIC = 1e-3
NUMERIC_HALF = 0.1
"""Passes of another width, or on another machine, round differently. Up to such a difference, of p and between the
logarithms of the two best tokens, that explains another token; NUMERIC_HALF holds below float32."""

CAUSES = ("ended", "inputs", "draws", "numeric", "fault", "unknown")
"""`ended`: one run is the beginning of the other. `inputs`: they weren't asked the same. `draws`: they met different
random numbers, or spent the same ones on different questions. `numeric`: the same inputs, and p is the same but for
rounding. `fault`: the same inputs, and more than rounding lies between. `unknown`: too little was recorded."""


@dataclass(frozen=True)
class Side:
    """What decided one token of one run: the position of the round it stands in, and the test there.

    `round` and `position` count from 0. `draft` is None where nothing was drafted: the bonus, and every draw at k = 0.
    """

    round: int
    position: int
    rule: str
    emitted: Emitted
    draft: Draft | None
    distributions: Distributions | None


@dataclass(frozen=True)
class FirstDifference:
    """The first emitted token, counted from 0, that isn't the same; a side is None where its run had ended.

    `cause`: see CAUSES. `differing`: the inputs that weren't the same, by name. `gap`: between the natural logarithms
    of the target's two best tokens, the smaller of both sides. `difference`: the largest between both p's and both q's,
    over the tokens that both recorded; None where they aren't known. `sentences`: why, and what happened on each side.
    """

    index: int
    a: Side | None
    b: Side | None
    cause: str
    differing: tuple[str, ...]
    gap: float | None
    difference: float | None
    sentences: tuple[str, ...]


def same_tokens(a: RecordedRun, b: RecordedRun) -> int:
    """How many emitted tokens from the start are the same."""
    pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(a.tokens), len(b.tokens)))


def side_of(run: RecordedRun, index: int) -> Side | None:
    """What decided an emitted token, by its index; None behind the last."""
    if index >= len(run.tokens):
        return None
    number, within = run.locate(index)
    record = run[number]
    if within >= len(record.emitted):
        return None
    emitted = record.emitted[within]
    return _side(record, emitted)


def _side(record: Round, emitted: Emitted) -> Side:
    at = emitted.position
    return Side(record.index, at, record.rule, emitted, _drafted(record, at), _seen(record, at))


def first_difference(a: RecordedRun, b: RecordedRun, index: int) -> FirstDifference:
    left, right = side_of(a, index), side_of(b, index)
    if left is None or right is None:
        words = f"All {index} tokens of {'A' if left is None else 'B'} are the same in the other run, which is longer."
        return FirstDifference(index, left, right, "ended", (), None, None, (words,))
    differing = tuple(_inputs(a, b, left, right))
    gap, difference = _gap(left, right), _largest_difference(left.distributions, right.distributions)
    asked = [name for name in differing if name in _OF_P]
    if asked:
        cause, why = "inputs", f"Not the same in both: {', '.join(asked)}; so p isn't the same either."
    elif differing:
        cause, why = "draws", f"p comes from the same inputs. Not the same in both: {', '.join(differing)}."
    elif left.rule == "greedy-argmax":
        cause, why = _greedy_cause(_most(a, b), gap)
    else:
        cause, why, difference = _same_inputs(a, b, left, right)
    sentences = why, _told("A", a, left), _told("B", b, right)
    return FirstDifference(index, left, right, cause, differing, gap, difference, sentences)


_OF_P = ("prompt", "target", "sampler", "contents of the main cache")


def _inputs(a: RecordedRun, b: RecordedRun, left: Side, right: Side) -> Iterator[str]:
    """What could part the runs, and isn't the same. Under a greedy rule nothing does that draws or drafts."""
    x, y = a.header, b.header
    if x.prompt_tokens != y.prompt_tokens:
        yield "prompt"
    if model_of(x.target) != model_of(y.target):
        yield "target"
    greedy = left.rule == right.rule == "greedy-argmax"
    if _sampling(x.settings.sampler, greedy) != _sampling(y.settings.sampler, greedy):
        yield "sampler"
    if any(_main_is_wrong(run, side) for run, side in ((a, left), (b, right))):
        yield "contents of the main cache"
    if greedy:
        return
    if left.rule != right.rule:
        yield "rule"
    if x.seed != y.seed:
        yield "seed"
    if model_of(x.draft) != model_of(y.draft) or x.drafter != y.drafter:
        yield "drafter"
    if x.settings.drafting != y.settings.drafting:
        yield "draft sampler"
    for name in ("num_draft_tokens", "rewind"):
        if getattr(x.settings, name) != getattr(y.settings, name):
            yield name


def model_of(info: ModelInfo | None) -> tuple[Any, ...] | None:
    """What tells models apart: everything but the folder they were loaded from."""
    return None if info is None else dataclasses.astuple(dataclasses.replace(info, path=""))


def _sampling(settings: SamplerSettings, greedy: bool) -> dict[str, Any]:
    """The settings that can change a token; under a greedy rule what shapes the distribution doesn't."""
    found = dataclasses.asdict(settings)
    for name in ("temperature", "top_k", "top_p", "min_p", "chain_order") if greedy else ():
        found.pop(name)
    return found


def _main_is_wrong(run: RecordedRun, side: Side) -> bool:
    """Whether the main cache held something else than the committed tokens before the token's round."""
    return bool((run.column("main_wrong")[: side.round] >= 0).any())


def _most(a: RecordedRun, b: RecordedRun) -> float:
    """The largest difference that rounding explains."""
    return NUMERIC if {run.header.target.dtype for run in (a, b)} == {"float32"} else NUMERIC_HALF


def _greedy_cause(most: float, gap: float | None) -> tuple[str, str]:
    if gap is None:
        return "unknown", "Both are greedy, and the gap between the two best tokens wasn't recorded."
    if gap <= most:
        return "numeric", f"numeric: top-2 gap {gap:.1g}."
    return "fault", f"Both are greedy with the same inputs, and the top-2 gap is {gap:.1g}: rounding explains {most:g}."


def _same_inputs(a: RecordedRun, b: RecordedRun, left: Side, right: Side) -> tuple[str, str, float | None]:
    """(cause, why, largest difference of p and q) where both runs were asked the same with the same draws.

    The drafts may part before the tokens do, so the first round that isn't the same is looked for.
    """
    number = _first_other_round(a, b, max(left.round, right.round))
    x, y = a[number], b[number]
    if (x.changed, x.forced) != (y.changed, y.forced):
        done = [f"{name}: {_interventions(record)}" for name, record in (("A", x), ("B", y))]
        return "inputs", f"Somebody intervened at round {number} ({'; '.join(done)}).", None
    at = _first_other_position(x, y)
    one, other = _drafted(x, at), _drafted(y, at)
    where = f"round {number}, position {at + 1}"
    seen, also = _seen(x, at), _seen(y, at)
    difference, most = _largest_difference(seen, also), _most(a, b)
    if one is not None and other is not None and one.token == other.token and one.u != other.u:
        return "fault", f"The seed is the same, and yet u is not, in {where}.", difference
    if difference is None:
        return "unknown", f"The runs part in {where}, where p wasn't recorded: numeric, or a fault.", None
    size = f"p and q differ by at most {difference:.1g}"
    if (gap := _gap_of(seen, also)) is not None:
        size = f"top-2 gap {gap:.1g}, {size}"
    if difference > most:
        return "fault", f"The inputs are the same, and yet in {where} {size}: rounding explains {most:g}.", difference
    if difference == 0 and seen is not None and len(seen.ids) == seen.vocab_size:
        return "fault", f"p, q and the draws are the same in {where}, and yet not what came of them.", difference
    return "numeric", f"numeric: {size}, in {where}.", difference


def _first_other_round(a: RecordedRun, b: RecordedRun, last: int) -> int:
    """The first round, `last` at most, in which anything was drafted, kept, emitted or asked that isn't the same."""
    numbers = range(min(len(a), len(b), last + 1))
    return next((n for n in numbers if _outcome(a[n]) != _outcome(b[n])), numbers[-1])


def _outcome(record: Round) -> tuple[Any, ...]:
    drafts = [(draft.token, draft.fate) for draft in record.drafts]
    return record.changed, record.forced, drafts, [(e.token, e.position) for e in record.emitted]


def _first_other_position(x: Round, y: Round) -> int:
    for at in range(max(x.k, y.k)):
        one, other = _drafted(x, at), _drafted(y, at)
        if one is None or other is None or (one.token, one.fate) != (other.token, other.fate):
            return at
    pairs = zip(x.emitted, y.emitted, strict=False)
    return next((e.position for e, f in pairs if e.token != f.token), min(len(x.emitted), len(y.emitted)))


def _drafted(record: Round, at: int) -> Draft | None:
    return record.drafts[at] if 0 <= at < record.k else None


def _seen(record: Round, at: int) -> Distributions | None:
    return record.distributions[at] if 0 <= at < len(record.distributions) else None


def _interventions(record: Round) -> str:
    changes = [f"{name} = {value}" for name, value in record.changed.items()]
    return ", ".join(changes + ([record.forced] if record.forced else [])) or "nothing"


def _gap(left: Side, right: Side) -> float | None:
    return _gap_of(left.distributions, right.distributions)


def _gap_of(*seen: Distributions | None) -> float | None:
    known = [gap for distributions in seen if (gap := top_2_gap(distributions)) is not None]
    return min(known, default=None)


def top_2_gap(seen: Distributions | None) -> float | None:
    """Between the natural logarithms of the two best tokens, before the sampler chain if that was recorded; None
    where fewer than two are known."""
    if seen is None:
        return None
    stages = dict(seen.p_stages)
    best = np.sort(np.asarray(stages.get("raw", seen.p), np.float64))[-2:]
    if len(best) < 2 or not best[0] > 0 or not math.isfinite(best[1]):
        return None
    return math.log(best[1]) - math.log(best[0])


def _largest_difference(one: Distributions | None, other: Distributions | None) -> float | None:
    """Of p, and of q where both have one, over the tokens that both recorded."""
    if one is None or other is None:
        return None
    _, left, right = np.intersect1d(one.ids, other.ids, return_indices=True)
    rows = [(one.p, other.p)]
    if one.q is not None and other.q is not None:
        rows.append((one.q, other.q))
    found = [np.abs(x[left].astype(np.float64) - y[right]).max(initial=0.0) for x, y in rows]
    return float(max(found)) if left.size else None


# In words


def _told(name: str, run: RecordedRun, side: Side) -> str:
    words = side.emitted.source.replace("-", " ")
    where = f"{name}, round {side.round}, position {side.position + 1} ({side.rule})"
    return f"{where}: {_test_words(side, run.header.vocabulary)} emitted {_quoted(run, side.emitted.token)} ({words})."


def _quoted(run: RecordedRun, token: int) -> str:
    return f"{token} {run.header.vocabulary.text_of(token)!r}"


def _test_words(side: Side, vocabulary: Vocabulary) -> str:
    draft = side.draft
    if draft is None:
        return "nothing was drafted here;"
    drafted = f"drafted {draft.token} {vocabulary.text_of(draft.token)!r}, p {_number(draft.p)}, q {_number(draft.q)}"
    if side.rule == "block" and draft.block_h is not None and draft.u is not None:
        sign = "<=" if draft.u <= draft.block_h else ">"
        return f"{drafted}, u {_number(draft.u)} {sign} h {_number(draft.block_h)}: {draft.fate};"
    if draft.u is not None and draft.threshold is not None and draft.p is not None:
        sign = "<=" if draft.threshold <= draft.p else ">"
        return f"{drafted}, u {_number(draft.u)}: u·q {_number(draft.threshold)} {sign} p: {draft.fate};"
    if draft.match is not None:
        kind = "the argmax" if "argmax" in side.rule else "a fresh draw from p"
        return f"{drafted}, {kind} was {draft.match} {vocabulary.text_of(draft.match)!r}: {draft.fate};"
    return f"{drafted}: {draft.fate};"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
