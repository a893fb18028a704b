"""The kinds of drafter that can be asked for as KIND[:ARGUMENT][,PICK], in one table; no MLX.

A network drafts by drawing from q (`sample`), by its argmax (`greedy`: its q is one-hot), or by drawing without
reporting q (`no-q`). A drafter without a network reports no q, or a one-hot one by choice (`one-hot`).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

PICKS = ("sample", "greedy", "no-q")
LOOKUP_PICKS = ("no-q", "one-hot")
BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
MODULES = ("all", "mlp", "attention")
MAX_NGRAM = 32

_SHORT = {"sample": "model", "greedy": "model,greedy", "no-q": "model,no-q"}
_UNBUILT = ("mtp", "dflash")


class DrafterError(ValueError):
    """The drafter asked for is none, or can't be made; the text says what was expected."""


@dataclass(frozen=True)
class DrafterKind:
    """One kind. `network`: whose it is: the pair's "draft", one made from the "target", or "none".

    `argument`: its form, "" where it takes none. `default`: the argument where none is given, None: it must be given.
    """

    id: str
    title: str
    about: str
    network: str
    argument: str = ""
    default: str | None = ""
    picks: tuple[str, ...] = PICKS


DRAFTER_TABLE = {
    kind.id: kind
    for kind in (
        DrafterKind("model", "draft model", "The pair's own draft model.", "draft"),
        DrafterKind(
            "prompt-lookup",
            "prompt lookup",
            "Proposes what followed the last time the newest tokens stood in the text; costs no forward pass.",
            "none",
            "N, the longest run of tokens to look for",
            "3",
            LOOKUP_PICKS,
        ),
        DrafterKind(
            "dropped",
            "target with layers dropped",
            "The target without some of its layers, sharing its weights.",
            "target",
            "FIRST-LAST, the layers to leave out, counted from 0",
            None,
        ),
        DrafterKind(
            "requantized",
            "target requantized",
            "The target with its weights rounded to fewer bits.",
            "target",
            "BITS[:GROUP[:MODULES]]",
            "4:32:all",
        ),
        DrafterKind("self", "target itself", "The target drafts for itself: every test passes.", "target"),
    )
}


@dataclass(frozen=True)
class Drafter:
    """A drafter asked for, taken apart; `text` is its full form. See `parse_drafter`.

    `ngram` belongs to prompt-lookup; `first` and `last` to dropped; `bits`, `group` and `modules` to requantized.
    """

    kind: DrafterKind
    pick: str
    text: str
    ngram: int = 0
    first: int = 0
    last: int = 0
    bits: int = 0
    group: int = 0
    modules: str = ""

    @property
    def network(self) -> str:
        """What identifies the network that it needs: "draft", "" for none, or the drafter without its pick."""
        if self.kind.network == "draft":
            return "draft"
        return "" if self.kind.network == "none" else self.text.partition(",")[0]

    @property
    def reports_q(self) -> bool:
        return self.pick != "no-q"

    @property
    def one_hot_q(self) -> bool:
        """Whether its q is one-hot by its kind; a sampler of temperature 0 makes it so too."""
        return self.pick in ("greedy", "one-hot")


@functools.lru_cache(maxsize=64)
def parse_drafter(text: str) -> Drafter:
    """Take KIND[:ARGUMENT][,PICK] apart. Raises DrafterError, which names what was expected."""
    asked = _SHORT.get(text.strip(), text.strip())
    head, comma, pick = asked.partition(",")
    name, colon, argument = head.partition(":")
    if name in _SHORT:
        raise DrafterError(f"{name} takes no argument, got {asked!r}")
    if name in _UNBUILT:
        raise DrafterError(
            f"{name} is a kind of drafter that this version can't build ({_known()}), and none is put in its place"
        )
    kind = DRAFTER_TABLE.get(name)
    if kind is None:
        raise DrafterError(f"{name!r} is no kind of drafter known here ({_known()})")
    if colon and not kind.argument:
        raise DrafterError(f"{name} takes no argument, got {argument!r}")
    if not colon:
        if kind.default is None:
            raise DrafterError(f"{name}: expected {name}:{kind.argument}, got no argument")
        argument = kind.default
    if comma and pick not in kind.picks:
        raise DrafterError(f"{name}: expected one of {', '.join(kind.picks)} behind the comma, got {pick!r}")
    fields, full = _ARGUMENTS[name](argument) if kind.argument else ({}, "")
    pick = pick or kind.picks[0]
    canonical = name + (f":{full}" if full else "") + (f",{pick}" if pick != kind.picks[0] else "")
    return Drafter(kind, pick, canonical, **fields)


def _known() -> str:
    return (
        f"built are {', '.join(DRAFTER_TABLE)}; sample, greedy and no-q are short for model, model,greedy, model,no-q"
    )


def _number(text: str, what: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not least <= int(text) <= most:
        raise DrafterError(f"{what}: expected a whole number from {least} to {most}, got {text!r}")
    return int(text)


def _lookup_argument(text: str) -> tuple[dict[str, Any], str]:
    ngram = _number(text, "prompt-lookup", 1, MAX_NGRAM)
    return {"ngram": ngram}, str(ngram)


def _dropped_argument(text: str) -> tuple[dict[str, Any], str]:
    first, dash, last = text.partition("-")
    low = _number(first, "dropped, first layer", 0, 99_999)
    high = _number(last, "dropped, last layer", low, 99_999) if dash else low
    return {"first": low, "last": high}, f"{low}-{high}"


def _requantized_argument(text: str) -> tuple[dict[str, Any], str]:
    parts = text.split(":")
    if len(parts) > 3:
        raise DrafterError(f"requantized: expected BITS[:GROUP[:MODULES]], got {text!r}")
    bits, group, modules = [*parts, *("", "32", "all")[len(parts) :]]
    if bits not in map(str, BITS):
        raise DrafterError(f"requantized: expected one of {', '.join(map(str, BITS))} bits, got {bits!r}")
    if group not in map(str, GROUP_SIZES):
        raise DrafterError(f"requantized: expected a group of {', '.join(map(str, GROUP_SIZES))}, got {group!r}")
    if modules not in MODULES:
        raise DrafterError(f"requantized: expected one of {', '.join(MODULES)} as modules, got {modules!r}")
    full = ":".join([bits, group, modules][: 3 if modules != "all" else 2 if group != "32" else 1])
    return {"bits": int(bits), "group": int(group), "modules": modules}, full


_ARGUMENTS = {
    "prompt-lookup": _lookup_argument,
    "dropped": _dropped_argument,
    "requantized": _requantized_argument,
}
