"""Both caches in plain words: which round went wrong, what should have been trimmed, which tokens are missing."""

from __future__ import annotations

import numpy as np

from app.format import NOTHING, count, plural, visible_text
from app.panels.ledger_rows import DIFFERS, EXTRA, MISSING, OWED, Comparison, Lane
from engine.invariants import broken_invariants
from engine.recording import RecordedRun
from engine.rewinds import draft_trim, main_trim
from engine.rounds import ContentCheck, Round
from engine.text import Vocabulary
from engine.toy_tables import BLIND, TOY

MOST_TOKENS = 6
"""Missing tokens that the sentence names."""

FLOAT32_LIMIT = 1e-3
"""Logits in float32 that differ by more aren't rounded differently: they come from other contents."""


def first_failure(run: RecordedRun) -> str | None:
    """What the first round that broke an invariant did, in words; None if none did."""
    index = run.invariants.first_round
    if index is None:
        return None
    debt = run[index - 1].debt if index else 0
    invariant, how = next(broken_invariants(run[index], debt))
    return f"Round {index} went wrong first: {_cause(run[index], invariant.id, invariant.title, how, debt)}."


def _cause(record: Round, invariant: str, title: str, how: str, debt: int) -> str:
    name, _, kind = invariant.partition("-")
    cache = record.main_cache if name == "main" else record.draft_cache
    if invariant == "debt-fed":
        return f"{plural(debt, 'token')} owed to the draft cache {'was' if debt == 1 else 'were'} never fed to it"
    if cache is not None and kind == "trim-law":
        return f"it trimmed the {name} cache by {cache.trim_asked[0]}, where the law says {law(record, name)}"
    if cache is not None and kind == "trim-done":
        done = max(cache.trim_done, default=0)
        asked = plural(cache.trim_asked[0], "token")
        return f"{asked} should have been trimmed off the {name} cache, and {done or 'none'} came off"
    return f"the invariant “{title}” failed, {how}"


def law(record: Round, name: str) -> str:
    """A cache's trim by the law, written out with the round's numbers: `max(k − e, 0) = max(4 − 1, 0) = 3`."""
    k, e = record.k, len(record.emitted)
    if name == "main":
        return f"k + 1 − e = {k} + 1 − {e} = {main_trim(k, e)}"
    return f"max(k − e, 0) = max({k} − {e}, 0) = {draft_trim(k, e)}" if k else "0 in a round without drafts"


def verdict(run: RecordedRun, index: int, found: Comparison) -> tuple[str, bool]:
    """(the sentence on the caches behind round `index`, whether anything was wrong up to there or later)."""
    failure, vocabulary = first_failure(run), run.header.vocabulary
    wrong = [_state(lane, found, vocabulary) for lane in found.lanes if not lane.is_right]
    if wrong:
        here = f"Behind round {index} {' '.join(wrong)}"
        return (f"{failure} {here}" if failure is not None else here), True
    held = ", ".join(f"{lane.name} {len(lane.held)} of {lane.expected}" for lane in found.lanes)
    owed = sum(lane.count(OWED) for lane in found.lanes)
    debt = f"; {plural(owed, 'token')} owed to the draft" if owed else ""
    first = run.invariants.first_round
    again = " again" if first is not None and first < index else ""
    here = f"Behind round {index} what is held is what should be{again}: {held}{debt}."
    return (f"{failure} {here}" if failure is not None else here), failure is not None


def _state(lane: Lane, found: Comparison, vocabulary: Vocabulary) -> str:
    """`the draft cache misses 16 tokens and holds 4 wrong ones, from position 15 on; it lacks ·it·has …`."""
    missing, differs, extra = (lane.count(status) for status in (MISSING, DIFFERS, EXTRA))
    parts = []
    if missing:
        parts.append(f"misses {plural(missing, 'token')}")
    if differs or extra:
        held = [plural(differs, "wrong token")] if differs else []
        held += [f"{plural(extra, 'token')} too many" if not differs else f"{count(extra)} too many"] if extra else []
        parts.append(f"holds {' and '.join(held)}")
    wrong = np.flatnonzero(lane.status >= MISSING)
    start = int(wrong[0])
    text = f"the {lane.name} cache {', and '.join(parts)}, from position {start} on"
    lacking = wrong[wrong < lane.expected]
    if not lacking.size:
        return f"{text}."
    ids = found.committed[lacking[:MOST_TOKENS]]
    shown = "".join(visible_text(vocabulary, int(token)) for token in ids)
    return f"{text}; it lacks {shown}{' …' if lacking.size > MOST_TOKENS else ''}"


def check_text(check: ContentCheck, dtype: str, model_type: str = "", kv_bits: int = 0) -> tuple[str, bool]:
    """(a content check in words, whether what it found is more than rounding).

    In quantized keys and values a last digit may tip a value to the next step, so no difference there is a verdict.
    """
    if model_type == TOY:
        return f"Contents behind round {check.round}: {BLIND}.", False
    main, draft = check.main_difference, check.draft_difference
    drafter = f", {_size(draft)} (draft)" if draft is not None else ""
    bad = dtype == "float32" and not kv_bits and max(main, draft or 0.0) > FLOAT32_LIMIT
    text = (
        f"Contents behind round {check.round}: largest difference from fresh caches' logits {_size(main)} (target)"
        f"{drafter}; cost {plural(check.syncs, 'sync')} of its own, counted apart."
    )
    if kv_bits:
        text += f" With keys and values in {kv_bits} bits rounding alone may show more than {FLOAT32_LIMIT:g}."
    return text, bad


def _size(value: float | None) -> str:
    if value is None:
        return NOTHING
    return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-") if value < 0.01 else f"{value:.2f}"


def check_for(run: RecordedRun, index: int) -> ContentCheck | None:
    """The newest check behind this round, else the newest of the run, None without any."""
    here = [check for check in run.content_checks if check.round == index]
    found = here or run.content_checks
    return found[-1] if found else None
