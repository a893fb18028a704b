"""Every kind of cache at length: greedy speculation against mlx-lm's plain decoding, and what going back costs.

    python tests/benchmarks/cache_kinds.py [TOKENS]

Prints for each tiny model whether 200 tokens (or TOKENS) agree, drafts tested and kept, tokens replayed, and host
syncs; then, for a window and for recurrent state of some size, the time of a round with drafts that are all rejected
against one whose cache trims, and the bytes that a snapshot keeps alive.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]

from tiny_networks import ARCHITECTURES, often_wrong, plain_decoding, tiny_model  # noqa: E402

from engine.backend import mx  # noqa: E402
from engine.caches import Cache  # noqa: E402
from engine.generator import SpeculativeGenerator  # noqa: E402
from engine.models import LanguageModel, Pair  # noqa: E402
from engine.settings import SamplerSettings, Settings  # noqa: E402

TIE = 1e-3
GREEDY = SamplerSettings(temperature=0.0)


def compare(name: str, target: LanguageModel, draft: LanguageModel, tokens: int, k: int, **kv: Any) -> None:
    """Print one line on one run."""
    options = {"kv_bits": kv["kv_bits"], "kv_group_size": kv["kv_group_size"], "quantized_kv_start": 0} if kv else {}
    plain, gaps = plain_decoding(target, tokens, **options)
    settings = Settings(sampler=GREEDY, num_draft_tokens=k, max_tokens=tokens, seed=1, record=False, **kv)
    generator = SpeculativeGenerator(Pair(target, draft), settings)
    generator.start([3, 5, 7, 9])
    rounds = list(generator.rounds())
    parts = next((i for i, pair in enumerate(zip(plain, generator.tokens, strict=True)) if pair[0] != pair[1]), None)
    if parts is None:
        said = "equal"
    else:
        said = f"{'TIE' if gaps[parts] < (1e-2 if kv else TIE) else 'DIFFERS'} at {parts}, gap {gaps[parts]:.2g}"
    counts, draft_replayed = generator.statistics, sum(r.draft_cache.replayed for r in rounds if r.draft_cache)
    print(
        f"{name:28} k={k} {said:10} kept {counts.accepted}/{counts.positions_tested}, replayed "
        f"{sum(r.main_cache.replayed for r in rounds)} main {draft_replayed} draft, "
        f"{generator.host_syncs} syncs in {len(rounds)} rounds, {len(set(plain))} different tokens",
        flush=True,
    )


def cost(name: str, model: LanguageModel) -> None:
    """Print the time of rounds that go back, and what a snapshot holds."""
    cache = Cache(model)
    for _ in cache.feed([i % 64 for i in range(1500)]):
        pass
    seconds: dict[str, list[float]] = {"kept": [], "rejected": []}
    for number in range(60):
        which = "kept" if number % 2 else "rejected"
        started = time.perf_counter()
        cache.remember(5)
        ids = [1, 2, 3, 4, 5]
        logits = cache.forward(mx.array(ids))
        cache.hold(ids)
        mx.eval(logits)
        if which == "rejected":
            cache.trim(4)
            mx.eval([layer.state for layer in cache.layers])
        seconds[which].append(time.perf_counter() - started)
    cache.remember(5)  # lets go of the one before
    before = mx.get_active_memory()
    cache.remember(5)
    at_once = mx.get_active_memory() - before
    mx.eval(cache.forward(mx.array([1])))
    held = mx.get_active_memory() - before
    shown = ", ".join(f"{name} {1000 * statistics.median(times):.2f} ms" for name, times in seconds.items())
    print(f"{name:28} a round of 5 tokens: {shown}; a snapshot takes {at_once} bytes, {held} behind one token more")


def main() -> None:
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for name in ARCHITECTURES:
        target = tiny_model(name)
        for k in (1, 2, 4, 7):
            compare(name, target, often_wrong(target), tokens, k)
        compare(f"{name}, other drafter", target, tiny_model("llama", seed=5), tokens, 4)
    for name in ("llama", "qwen3", "qwen3_next"):
        sizes = {"head_dim": 32, **({"num_attention_heads": 2} if name == "llama" else {})}
        target = tiny_model(name, **sizes)
        for bits in (8, 6, 5, 4, 3, 2):
            compare(f"{name}, {bits} bits", target, often_wrong(target), tokens, 4, kv_bits=bits, kv_group_size=32)
    wide = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64}
    cost("llama, trimmed", tiny_model("llama", **wide))
    cost("gemma3_text, window 1024", tiny_model("gemma3_text", **wide, sliding_window=1024))
    cost("mamba", tiny_model("mamba", hidden_size=512, intermediate_size=1024))


if __name__ == "__main__":
    main()
