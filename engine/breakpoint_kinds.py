"""What a breakpoint can wait for: one table of kinds, each a test of a round or of one tested draft; no MLX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.columns import outcome_of
from engine.invariants import broken_invariants
from engine.rounds import Draft, Round, RunHeader

ROLLING = 64
"""Tested positions that the rolling acceptance looks back on."""


def drift_news(record: Round, before: Round | None) -> str | None:
    """How the round changed the drift, unless to 0; a drift that merely stays is no news."""
    was = before.drift if before is not None else 0
    if record.drift in (0, was):
        return None
    return f"drift went from {was} to {record.drift} in round {record.index}"


def invariant_news(record: Round, before: Round | None) -> str | None:
    """Which invariant the round broke, the first in the order of cause and effect; None if none."""
    debt = before.debt if before is not None else 0
    titles = [invariant.title for invariant, _ in broken_invariants(record, debt)]
    if not titles:
        return None
    more = f", and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"invariant '{titles[0]}' failed in round {record.index}{more}"


class Seen:
    """A round as conditions look at it. `tripped`: a meter's evidence reached the alarm in it.

    `rolling`: acceptance over the last ROLLING tested positions behind the round, and behind the one before; None
    until so many were tested. What costs something is worked out once, when a condition asks for it.
    """

    def __init__(
        self,
        record: Round,
        before: Round | None,
        header: RunHeader,
        tripped: bool,
        rolling: tuple[float | None, float | None],
    ) -> None:
        self.record, self.before, self.tripped, self.rolling = record, before, tripped, rolling
        self._vocabulary = header.vocabulary

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(emitted.source for emitted in self.record.emitted)

    @cached_property
    def outcome(self) -> str:
        return outcome_of(self.record)

    @cached_property
    def text(self) -> str:
        """What the round emitted; special tokens stand by their names."""
        tokens = [emitted.token for emitted in self.record.emitted]
        special = [self._vocabulary.text_of(token) for token in tokens if token in self._vocabulary.special]
        return "".join([self._vocabulary.decode(tokens), *special])


Value = float | int | str | None
RoundTest = Callable[[Seen, Any], bool]
DraftTest = Callable[[Draft, float], bool]


@dataclass(frozen=True)
class Kind:
    """What can be waited for. `value`: "" (none), whole, share (a number from 0 to 1) or text.

    `title`: with {} for the value. One of the tests is given: of the round, or of one tested draft.
    """

    id: str
    name: str
    title: str
    about: str
    value: str = ""
    of_round: RoundTest | None = None
    of_draft: DraftTest | None = None


def _falls(seen: Seen, least: float) -> bool:
    now, before = seen.rolling
    return now is not None and now < least and (before is None or before >= least)


KINDS = {
    kind.id: kind
    for kind in (
        Kind(
            "rejection",
            "any rejection",
            "any rejection",
            "A draft was rejected",
            of_round=lambda seen, _: seen.record.rejected_at is not None,
        ),
        Kind(
            "recovered",
            "recovered token",
            "recovered token",
            "A token was drawn from the residual",
            of_round=lambda seen, _: "recovered" in seen.sources,
        ),
        Kind(
            "degenerate",
            "degenerate fallback",
            "degenerate fallback",
            "The residual had no mass, so a token was drawn from p in its place",
            of_round=lambda seen, _: "degenerate-fallback" in seen.sources,
        ),
        Kind(
            "accepted-all",
            "full acceptance",
            "full acceptance",
            "All drafts were accepted, and a bonus token was emitted",
            of_round=lambda seen, _: seen.outcome == "accepted-all",
        ),
        Kind(
            "drift",
            "drift not 0",
            "drift not 0",
            "The round changed the draft cache's drift to something other than 0",
            of_round=lambda seen, _: drift_news(seen.record, seen.before) is not None,
        ),
        Kind(
            "invariant",
            "invariant failure",
            "invariant failure",
            "The round broke an invariant of the caches",
            of_round=lambda seen, _: invariant_news(seen.record, seen.before) is not None,
        ),
        Kind(
            "alarm",
            "meter alarm",
            "meter alarm",
            "The evidence of the losslessness or the proposal meter reached its alarm; needs Diagnostics",
            of_round=lambda seen, _: seen.tripped,
        ),
        Kind(
            "token",
            "token emitted",
            "token {} emitted",
            "This token id was emitted",
            "whole",
            of_round=lambda seen, token: any(emitted.token == token for emitted in seen.record.emitted),
        ),
        Kind(
            "text",
            "text emitted",
            "text {} emitted",
            "What the round emitted contains this text; \\n and \\t are line break and tab",
            "text",
            of_round=lambda seen, text: text in seen.text,
        ),
        Kind(
            "p-below",
            "p(d) below",
            "p(d) < {}",
            "A tested draft has a p(d) below this",
            "share",
            of_draft=lambda draft, value: draft.p is not None and draft.p < value,
        ),
        Kind(
            "p-above",
            "p(d) above",
            "p(d) > {}",
            "A tested draft has a p(d) above this",
            "share",
            of_draft=lambda draft, value: draft.p is not None and draft.p > value,
        ),
        Kind(
            "q-below",
            "q(d) below",
            "q(d) < {}",
            "A tested draft has a q(d) below this",
            "share",
            of_draft=lambda draft, value: draft.q is not None and draft.q < value,
        ),
        Kind(
            "q-above",
            "q(d) above",
            "q(d) > {}",
            "A tested draft has a q(d) above this",
            "share",
            of_draft=lambda draft, value: draft.q is not None and draft.q > value,
        ),
        Kind(
            "rolling-below",
            "rolling acceptance below",
            "rolling acceptance < {}",
            f"The round took the acceptance of the last {ROLLING} tested positions below this",
            "share",
            of_round=_falls,
        ),
        Kind(
            "round",
            "round number",
            "round {}",
            "The round has this number, from 0",
            "whole",
            of_round=lambda seen, number: seen.record.index == number,
        ),
        Kind(
            "round-from",
            "round number from",
            "round ≥ {}",
            "The round has this number or a higher one; to be joined with another condition",
            "whole",
            of_round=lambda seen, number: seen.record.index >= number,
        ),
    )
}
"""By id, in the order in which they are offered."""

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escaped(text: str) -> str:
    r"""Text in one line, with \n, \t, \r and \\ for what would break it."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def unescaped(text: str) -> str:
    r"""What `escaped` made a line of; a backslash before anything else stands for itself."""
    back = {written[1]: character for character, written in _ESCAPES.items()}
    parts, at = [], 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in back:
            parts.append(back[text[at + 1]])
            at += 2
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)
