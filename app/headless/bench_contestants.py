"""What `draftscope bench` times: this engine, mlx-lm's two generators, and the models' forward passes alone.

Each contestant runs on the same networks and goes forward by one round at a time, so that they can take turns and
a slow moment of the machine hits them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from app.headless.request import RunError
from engine.backend import mx
from engine.caches import Cache
from engine.generator import SpeculativeGenerator
from engine.models import LanguageModel, Pair
from engine.rewinds import draft_trim
from engine.rounds import Round
from engine.settings import Settings


class Contestant(Protocol):
    """One way to decode."""

    @property
    def tokens(self) -> list[int]:
        """What it has emitted since `start`."""
        ...

    def start(self, prompt: list[int]) -> None:
        """Begin a new run; reading the prompt may wait for the first round."""
        ...

    def step(self) -> bool:
        """One round; False if the run had ended before."""
        ...


class Ours:
    """This engine. `last` is the round just made."""

    def __init__(self, pair: Pair, settings: Settings) -> None:
        self._generator = SpeculativeGenerator(pair, settings, stochastic=settings.stochastic)
        self._rounds: Iterator[Round] = iter(())
        self.last: Round | None = None

    @property
    def tokens(self) -> list[int]:
        return self._generator.tokens

    @property
    def syncs_and_rounds(self) -> tuple[int, int]:
        return self._generator.host_syncs, self._generator.statistics.rounds

    def start(self, prompt: list[int]) -> None:
        self._generator.start(prompt)
        self._rounds = self._generator.rounds()

    def step(self) -> bool:
        self.last = next(self._rounds, None)
        end = self._generator.end
        if end is not None and end.finish_reason == "error":
            raise RunError(f"a run failed: {end.notice}")
        return self.last is not None


class _Callable:
    """A model in the shape that mlx-lm's generators expect."""

    def __init__(self, model: LanguageModel) -> None:
        self._network = model.network
        self.layers = [None] * model.info.layers  # only their number is asked for

    def __call__(self, inputs: mx.array, cache: list[Any] | None = None) -> mx.array:
        return self._network(inputs, cache=cache)


class _MlxLm:
    """Drives one of mlx-lm's generators, which leaves the thread's default stream set to its own between tokens."""

    def __init__(self, temperature: float, seed: int) -> None:
        from mlx_lm.sample_utils import make_sampler

        self.tokens: list[int] = []
        self._sampler = make_sampler(temp=temperature) if temperature else None
        self._seed = seed
        self._steps: Iterator[Any] = iter(())
        self._stream: Any = None

    @contextmanager
    def _own_stream(self) -> Iterator[None]:
        device = mx.default_device()
        before = mx.default_stream(device)
        if self._stream is not None:
            mx.set_default_stream(self._stream)
        try:
            yield
        finally:
            self._stream = mx.default_stream(device)
            mx.set_default_stream(before)

    def _begin(self, make: Callable[[mx.array], Iterator[Any]], prompt: list[int]) -> None:
        mx.random.seed(self._seed)
        self.tokens, self._stream = [], None
        self._steps = make(mx.array(prompt, dtype=mx.uint32))


class MlxLmSpeculative(_MlxLm):
    """`mlx_lm.generate.speculative_generate_step`: one sampler for both models, its rule is sampler-match."""

    def __init__(self, pair: Pair, k: int, max_tokens: int, temperature: float, seed: int) -> None:
        super().__init__(temperature, seed)
        assert pair.draft is not None
        self._target, self._draft, self._k, self._max_tokens = pair.target, pair.draft, k, max_tokens

    def start(self, prompt: list[int]) -> None:
        from mlx_lm.generate import speculative_generate_step

        def make(ids: mx.array) -> Iterator[Any]:
            made: Iterator[Any] = speculative_generate_step(
                ids,
                _Callable(self._target),
                _Callable(self._draft),
                num_draft_tokens=self._k,
                max_tokens=self._max_tokens,
                sampler=self._sampler,
                prompt_cache=[*self._target.make_cache(), *self._draft.make_cache()],
            )
            return made

        self._begin(make, prompt)

    def step(self) -> bool:
        """A round ends with the one token that isn't from the draft, unless the limit cuts it short."""
        before = len(self.tokens)
        with self._own_stream():
            for token, _, from_draft in self._steps:
                self.tokens.append(int(token))
                if not from_draft:
                    break
        return len(self.tokens) > before


class MlxLmPlain(_MlxLm):
    """`mlx_lm.generate.generate_step`: no drafts; a round is one token."""

    def __init__(self, pair: Pair, max_tokens: int, temperature: float, seed: int) -> None:
        super().__init__(temperature, seed)
        self._target, self._max_tokens = pair.target, max_tokens

    def start(self, prompt: list[int]) -> None:
        from mlx_lm.generate import generate_step

        def make(ids: mx.array) -> Iterator[Any]:
            made: Iterator[Any] = generate_step(
                ids,
                _Callable(self._target),
                max_tokens=self._max_tokens,
                sampler=self._sampler,
                prompt_cache=self._target.make_cache(),
            )
            return made

        self._begin(make, prompt)

    def step(self) -> bool:
        with self._own_stream():
            for token, _ in self._steps:
                self.tokens.append(int(token))
                return True
        return False


class ForwardsAlone:
    """The forward passes of another contestant's last round: the same widths, the same tokens, and nothing else."""

    def __init__(self, pair: Pair, followed: Ours) -> None:
        assert pair.draft is not None
        self._target, self._draft, self._followed = pair.target, pair.draft, followed

    def start(self, prompt: list[int]) -> None:
        self._context = list(prompt)
        self._debt = 0
        self._caches = [Cache(self._target), Cache(self._draft)]
        for model, cache in zip((self._target, self._draft), self._caches, strict=True):
            if prompt[:-1]:
                model.network(mx.array(prompt[:-1], dtype=mx.uint32)[None], cache=cache.layers)
                cache.evaluate()

    def step(self) -> float:
        """Seconds of the passes; to be called once after each round of the one that is followed."""
        record = self._followed.last
        assert record is not None
        drafted = [d.token for d in record.drafts]
        pending, y = self._context[len(self._context) - 1 - self._debt :], self._context[-1:]
        main, draft = self._caches
        inputs = [pending, *([token] for token in drafted[:-1])] if drafted else []
        started = time.perf_counter()
        found = []
        for ids in inputs:
            found.append(self._draft.network(mx.array(ids, dtype=mx.uint32)[None], cache=draft.layers))
            mx.async_eval(found[-1])  # type: ignore[no-untyped-call]
        found.append(self._target.network(mx.array([*y, *drafted], dtype=mx.uint32)[None], cache=main.layers))
        mx.eval(found)
        seconds = time.perf_counter() - started
        k, emitted = len(drafted), len(record.emitted)
        main.trim(k + 1 - emitted)
        draft.trim(draft_trim(k, emitted))
        self._debt = max(emitted - k, 0) if k else self._debt + emitted
        self._context += [e.token for e in record.emitted]
        return seconds


def top_two_gap(model: LanguageModel, prefix: list[int]) -> float:
    """The gap between the two largest logits behind `prefix`: how near the target is to a tie there."""
    logits = model.network(mx.array(prefix, dtype=mx.uint32)[None], cache=model.make_cache())[0, -1].astype(mx.float32)
    best = mx.sort(logits)[-2:]
    return float(np.ptp(np.array(best)))
