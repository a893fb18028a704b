"""Do two models speculate together: their vocabularies compared by what every id stands for, and cut to one width."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from engine.backend import mx
from engine.model_files import LoadError
from engine.rounds import ModelInfo
from engine.text import Vocabulary

if TYPE_CHECKING:
    from engine.models import LanguageModel

_SHOWN = 6  # names in a sentence


class FittedWidth:
    """A network whose logits are cut, or filled with -inf, to a width (1, n, V)."""

    def __init__(self, network: Any, width: int) -> None:
        self.network, self.width = network, width

    def __call__(self, inputs: mx.array, /, cache: list[Any] | None = None) -> mx.array:
        logits = self.network(inputs, cache=cache)
        lacking = self.width - logits.shape[-1]
        if lacking <= 0:
            return logits[..., : self.width]
        return mx.pad(logits, [(0, 0), (0, 0), (0, lacking)], constant_values=mx.array(-float("inf"), logits.dtype))


def fit_pair(target: LanguageModel, draft: LanguageModel) -> tuple[LanguageModel, LanguageModel, tuple[str, ...]]:
    """Both models with logits of one width, and notices; raises LoadError, naming both, if they can't speculate.

    An id may lack a meaning in one of the two only behind the last id that has one there. Where the logits of both
    are wider than that, both are cut to the narrower width: what lies behind it stands for nothing, and is never drawn.
    Where the target has ids with a meaning that the draft's logits lack, their q is 0.
    """
    _same_ids(target, draft)
    width = max(min(target.vocab_size, draft.vocab_size), _used(target.vocabulary))
    notices = [*_of_width(target, draft, width), *_of_habits(target, draft)]
    return fit_width(target, width), fit_width(draft, width), tuple(notices)


def fit_width(model: LanguageModel, width: int) -> LanguageModel:
    """The model with logits, and a vocabulary, of this width."""
    if model.vocab_size == width:
        return model
    known = model.vocabulary
    pieces = (known.pieces + (b"",) * width)[:width]
    special = frozenset(token for token in known.special if token < width)
    names = {token: name for token, name in known.names.items() if token < width}
    ends = frozenset(token for token in known.end_ids if token < width)
    return dataclasses.replace(
        model,
        network=FittedWidth(model.network, width),
        info=dataclasses.replace(model.info, vocab_size=width),
        vocabulary=dataclasses.replace(known, pieces=pieces, special=special, names=names, end_ids=ends),
    )


def _same_ids(target: LanguageModel, draft: LanguageModel) -> None:
    ours, theirs = target.vocabulary, draft.vocabulary
    known = min(_used(ours), _used(theirs))
    for token in range(known):
        if _entry(ours, token) != _entry(theirs, token):
            raise LoadError(
                f"The {_names(target.info, draft.info)} have different tokenizers: id {token} is "
                f"{ours.text_of(token)!r} in the target and {theirs.text_of(token)!r} in the draft. "
                "Choose two models of one family."
            )


def _of_width(target: LanguageModel, draft: LanguageModel, width: int) -> list[str]:
    ours, theirs = target.vocab_size, draft.vocab_size
    found = []
    if ours != theirs:
        words = f"The {_names(target.info, draft.info)} have logits for {ours:,} and {theirs:,} ids of one tokenizer: "
        if width == min(ours, theirs):
            words += f"both are cut to {width:,}; the ids behind stand for nothing and are never drawn."
        else:
            words += f"{width:,} are used; what the draft lacks has q = 0."
        found.append(words)
    return found


def _of_habits(target: LanguageModel, draft: LanguageModel) -> list[str]:
    """What differs between two tokenizers with the same ids."""
    ours, theirs = target.vocabulary, draft.vocabulary
    found = []
    if target.network is draft.network:
        found.append(f"Target and draft are the same model ({target.info.name}): every draft agrees, no speed-up.")
    if target.encode("a") != draft.encode("a"):
        found.append("The two tokenizers begin a text differently (BOS); the target's ids are used for both models.")
    for who, here, there in (("target", ours, theirs), ("draft", theirs, ours)):
        alone = [here.names.get(token, str(token)) for token in sorted(here.special - there.special)]
        if alone:
            more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
            shown = ", ".join(alone[:_SHOWN]) + more
            found.append(f"Special in the {who}'s tokenizer only: {shown}; what the target says counts.")
    return found


def _used(vocabulary: Vocabulary) -> int:
    """How many ids there are up to the last one that stands for something."""
    pieces, named = vocabulary.pieces, max(vocabulary.names, default=-1)
    last = next((token for token in range(len(pieces) - 1, -1, -1) if pieces[token]), -1)
    return max(last, named) + 1


def _entry(vocabulary: Vocabulary, token: int) -> bytes:
    """What an id stands for, whether the tokenizer calls it special or not."""
    return vocabulary.names[token].encode() if token in vocabulary.names else vocabulary.pieces[token]


def _names(target: ModelInfo, draft: ModelInfo) -> str:
    return f"target {target.name!r} and draft {draft.name!r}"
