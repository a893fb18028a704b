"""What the rows of tests/README.md are tried with: a tiny llama pair, and models with fixed distributions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from model_folders import network_of

from engine.backend import mx, tree_flatten
from engine.generator import SpeculativeGenerator
from engine.models import LanguageModel, Pair
from engine.rounds import ModelInfo, Round
from engine.settings import SamplerSettings, Settings
from engine.text import toy_vocabulary
from engine.toy import fixed_logits, toy_model

WORDS = 64
PROMPT = [3, 5, 7, 9]
GREEDY = SamplerSettings(temperature=0.0)
_ARGUMENTS: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": WORDS,
    "tie_word_embeddings": True,
}


@functools.cache
def tiny_llama(seed: int, context_length: int | None = None, dtype: str = "float32") -> LanguageModel:
    """mlx-lm's llama with 64 ids and random weights, the 2-D ones times 3, so that its text goes on changing."""
    from mlx_lm.models.cache import make_prompt_cache

    mx.random.seed(seed)
    network = network_of(_ARGUMENTS)
    flat: Any = tree_flatten(network.parameters())
    kind = getattr(mx, dtype)
    network.load_weights([(name, ((3 * a) if a.ndim == 2 else a).astype(kind)) for name, a in flat])
    network.eval()
    mx.eval(network.parameters())
    info = ModelInfo(f"tiny llama {seed}", "", "llama", 1, 2, WORDS, context_length, dtype, "KVCache")
    return LanguageModel(
        network,
        info,
        toy_vocabulary([f" {word}" for word in range(WORDS)], ()),
        lambda text: [int(word) for word in text.split()],
        lambda: list(make_prompt_cache(network)),
    )


def tiny_pair(context_length: int | None = None) -> Pair:
    """Seeds 1 and 2: at temperature 0 the drafter is never right."""
    return Pair(tiny_llama(1, context_length), tiny_llama(2, context_length))


def fixed(p: Sequence[float], **options: Any) -> LanguageModel:
    """A model whose distribution at temperature 1 is p after every token."""
    with np.errstate(divide="ignore"):
        return toy_model(fixed_logits(np.log(np.asarray(p))), [f" {n}" for n in range(len(p))], **options)


def fixed_pair(p: Sequence[float], q: Sequence[float], **options: Any) -> Pair:
    """Two of them."""
    return Pair(fixed(p, **options), fixed(q))


def run(
    pair: Pair, prompt: str | Sequence[int] = (0,), *, stochastic: bool = False, **settings: Any
) -> tuple[SpeculativeGenerator, list[Round]]:
    """A whole run; seed 1 unless told."""
    generator = SpeculativeGenerator(pair, Settings(**{"seed": 1, **settings}), stochastic=stochastic)
    generator.start(prompt)
    return generator, list(generator.rounds())


def plain_greedy(model: LanguageModel, tokens: int, prompt: Sequence[int] = tuple(PROMPT)) -> list[int]:
    """The target's own stream, each token from one pass over the whole text: no cache, no drafts."""
    context = list(prompt)
    for _ in range(tokens):
        context.append(int(mx.argmax(model.network(mx.array([context]), cache=model.make_cache())[0, -1])))
    return context[len(prompt) :]
