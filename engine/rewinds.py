"""The rewind law as plain numbers, and the faults that imitate how engines have missed it, in one table; no MLX.

P = prompt tokens, E = tokens emitted so far. At the start of a round the main cache holds P + E - 1 tokens (the
last one is pending) and the draft cache P + E - 1 - debt: the debt is owed and fed with the next drafts. A round
with k >= 1 drafts, of which it emits e tokens, forwards y, d_1..d_k through the target and the owed tokens, y,
d_1..d_(k-1) through the drafter. Then the law is

    main:  trim k + 1 - e        ends at P + E' - 1
    draft: trim max(k - e, 0)    ends at P + E' - 1 - debt',   debt' = max(e - k, 0)

A round with k = 0 leaves the draft cache alone and adds 1 to the debt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.settings import MAIN_REWINDS, REWINDS


@dataclass(frozen=True)
class Outcome:
    """What a trim is decided from: k drafted, accepted, emitted; the lawful trim now and in the round before."""

    k: int
    accepted: int
    emitted: int
    lawful: int
    previous: int


def main_trim(k: int, emitted: int) -> int:
    """Tokens to take off the main cache, by the law."""
    return k + 1 - emitted


def draft_trim(k: int, emitted: int) -> int:
    """Tokens to take off the draft cache, by the law."""
    return max(k - emitted, 0)


def next_debt(debt: int, k: int, emitted: int) -> int:
    """Tokens owed to the draft cache after a round, by the law."""
    return max(emitted - k, 0) if k else debt + emitted


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """How a cache is brought back after a round: the law, or a fault.

    `trim`: the tokens asked to be taken off. `takes_off` False: asked for, but nothing happens. `feeds_debt` False:
    the owed tokens are forgotten. `imitates`: one sentence on the mistake, `seen`: where it was met.
    """

    id: str
    title: str
    imitates: str
    seen: str
    trim: Callable[[Outcome], int] = lambda o: o.lawful
    takes_off: bool = True
    feeds_debt: bool = True

    @property
    def is_fault(self) -> bool:
        return self.id != "correct"


REWIND_TABLE = {
    rewind.id: rewind
    for rewind in (
        Rewind(
            id="correct",
            title="the rewind law",
            imitates="Both caches go back to the accepted prefix.",
            seen="mlxcel #1002",
        ),
        Rewind(
            id="legacy-rewind",
            title="trims r + 1 instead of r - 1",
            imitates="The draft cache loses one or two good tokens in every round, so the drafter falls behind.",
            seen="mlxcel #994",
            trim=lambda o: min(o.k - o.accepted + 1, o.k),
        ),
        Rewind(
            id="drop-debt",
            title="forgets the owed token",
            imitates="After a fully accepted round the last draft is never fed to the drafter: one token is missing.",
            seen="a kind of mlxcel #994",
            feeds_debt=False,
        ),
        Rewind(
            id="stale-trim",
            title="applies the previous round's trim",
            imitates="The trim is computed from a count that wasn't brought up to date: the round before's.",
            seen="a kind of mlxcel #994",
            trim=lambda o: o.previous,
        ),
        Rewind(
            id="no-trim",
            title="asks for a trim, but nothing is taken off",
            imitates="Rejected tokens stay in the cache, as when a wrapped sliding-window cache ignores its trim.",
            seen="mlx-lm #1423 and #1914, mlx-swift-lm #424",
            takes_off=False,
        ),
    )
}
"""By id: `settings.rewind` for the draft cache, where faults cost acceptance only; `settings.main_rewind` for the main
cache, where they corrupt p itself."""

assert set(REWINDS) == set(REWIND_TABLE)
assert set(MAIN_REWINDS) <= set(REWIND_TABLE)
