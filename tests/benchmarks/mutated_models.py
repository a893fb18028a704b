"""Loads thousands of damaged model folders and GGUF files: each must load or be refused with a LoadError, none may
crash, hang or raise anything else. Run it with `python tests/benchmarks/mutated_models.py [--count N] [--first N]`.

The loading happens in child processes, so that a crash costs one case; a case that failed can be made again by its
number: `--first N --count 1`.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 30  # a case that takes longer hangs
MEMORY = 16 * 2**30  # bytes of address space of a child
ODD: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308]
ODD += [float("nan"), float("inf"), "", "x", "llama", "../../etc/passwd", "\0", "é" * 300, [], [1], ["a"], [[]], {}]
ODD += [{"a": 1}, [0] * 1000, {"type": "llama3"}, {"bits": 4, "group_size": 32}, {"rope_type": "yarn", "factor": 2}]


def mutate_json(value: Any, rng: random.Random) -> Any:
    """A copy with one to three nodes replaced, removed, doubled or swapped."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.randint(1, 3)):
        holder, key = _node(value, rng)
        if holder is None:
            return rng.choice(ODD)
        choice = rng.random()
        if choice < 0.2:
            del holder[key]
        elif choice < 0.3 and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), holder[key])
        elif choice < 0.4 and isinstance(holder, dict):
            holder[rng.choice(["", "x", f"{key}x", "model_type"])] = holder.pop(key)
        elif choice < 0.55 and type(holder[key]) in (int, float):
            holder[key] = rng.choice(
                [holder[key] + 1, holder[key] - 1, holder[key] * 2, -holder[key], holder[key] * 1e9]
            )
        else:
            holder[key] = rng.choice(ODD)
    return value


def _node(value: Any, rng: random.Random) -> tuple[Any, Any]:
    """A container and one of its keys, at a random depth."""
    found: tuple[Any, Any] = (None, None)
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        found = (value, key)
        if rng.random() < 0.35:
            break
        value = value[key]
    return found


def mutate_bytes(data: bytes, rng: random.Random, until: int | None = None) -> bytes:
    """One to four changes within the first `until` bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        end = max(min(until or len(changed), len(changed)), 1)
        at = rng.randrange(end)
        choice = rng.random()
        if choice < 0.35 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif choice < 0.5:
            changed[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2**31, 2**32 - 1, rng.randrange(2**32), 9, 8]))
        elif choice < 0.7:
            changed[at : at + 8] = struct.pack("<Q", rng.choice([0, 1, 2**63, 2**64 - 1, rng.randrange(2**20), 2**40]))
        elif choice < 0.8:
            del changed[at : at + rng.randint(1, 64)]
        elif choice < 0.9:
            changed[at:at] = rng.randbytes(rng.randint(1, 64))
        elif choice < 0.95:
            del changed[at:]
        else:
            start = rng.randrange(end)
            changed[at : at + 32] = changed[start : start + 32]
    return bytes(changed)


def mutate_gguf(path: Path, make: Callable[[], tuple[dict[str, Any], dict[str, Any]]], rng: random.Random) -> str:
    """Damage the file's bytes, or its metadata, or its list of tensors."""
    from gguf_files import TYPES, gguf_bytes

    metadata, tensors = make()
    choice = rng.random()
    if choice < 0.4:
        data = gguf_bytes(metadata, tensors)
        path.write_bytes(mutate_bytes(data, rng, rng.choice([400, 2000, len(data) - 100_000, len(data)])))
        return "gguf bytes"
    if choice < 0.75:
        for key in rng.sample(sorted(metadata), rng.randint(1, 2)):
            metadata[key] = _other(metadata[key], rng)
            if metadata[key] is None:
                del metadata[key]
        path.write_bytes(gguf_bytes(metadata, tensors))
        return "gguf metadata"
    for name in rng.sample(sorted(tensors), rng.randint(1, 2)):
        shape, kind, data = tensors.pop(name)
        side = [2**64 - 1, 2**63, 2**32, 2**31, 2**20, 0, 1, 31, 32, 64, 256]
        if rng.random() < 0.6:
            shape = tuple(rng.choice([one, rng.choice(side)]) for one in shape * rng.choice([1, 1, 1, 2, 3]))
        if rng.random() < 0.4:
            kind = rng.choice(sorted(TYPES))
        if rng.random() < 0.3:
            name = rng.choice(["", "x", name + "x", "output.weight", "rope_freqs.weight", "blk.999999.attn_q.weight"])
        if rng.random() < 0.8:
            tensors[name] = (shape, kind, data)
    path.write_bytes(gguf_bytes(metadata, tensors))
    return "gguf tensors"


def _other(value: Any, rng: random.Random) -> Any:
    """Something that a GGUF file can hold in a value's place; None: nothing."""
    if isinstance(value, list) and rng.random() < 0.7:
        changed = list(value)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice([value[at - 1], type(value[0])(), changed[rng.randrange(len(changed))]])
        return changed if rng.random() < 0.7 else changed[: rng.randrange(len(changed))]
    if type(value) is int and rng.random() < 0.5:
        return rng.choice([value + 1, value - 1, value * 2, 0, -1, 2**31 - 1, 2**32 - 1, 2**32, 2**62])
    return rng.choice(
        [None, True, 0, 1, 3, -1, 0.0, 1e-30, float("nan"), "", "x", "gpt2", "llama", "qwen3", [1], ["a"], []]
    )


def mutate_folder(folder: Path, rng: random.Random) -> str:
    """Damage one or two files of a folder."""
    names = sorted(entry.name for entry in folder.iterdir())
    for name in rng.sample(names, rng.choice([1, 1, 1, 2])):
        kind = _mutate_file(folder / name, rng)
    return f"{name}: {kind}"


def _mutate_file(path: Path, rng: random.Random) -> str:
    choice = rng.random()
    if choice < 0.12:
        path.unlink()
        made: dict[str, Callable[[], Any]] = {
            "missing": lambda: None,
            "empty": lambda: path.write_bytes(b""),
            "a folder": path.mkdir,
            "a pipe": lambda: os.mkfifo(path),
            "a dead link": lambda: path.symlink_to("../blobs/none"),
            "a link to a device": lambda: path.symlink_to("/dev/zero"),
            "a link to itself": lambda: path.symlink_to(path.name),
        }
        kind = rng.choice(list(made))
        made[kind]()
        return kind
    data = path.read_bytes()
    if path.suffix == ".json" and choice < 0.8:
        path.write_text(json.dumps(mutate_json(json.loads(data), rng)))
        return "nodes"
    if path.suffix == ".safetensors" and choice < 0.6:
        length = int.from_bytes(data[:8], "little")
        header = json.dumps(mutate_json(json.loads(data[8 : 8 + length]), rng)).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
        return "header"
    until = 8 + int.from_bytes(data[:8], "little") if path.suffix == ".safetensors" else len(data)
    path.write_bytes(mutate_bytes(data, rng, until))
    return "bytes"


def write_originals(place: Path) -> None:
    """The folders and the metadata that are damaged."""
    from model_folders import byte_level_tokenizer, sentencepiece_tokenizer, write_folder, write_json

    write_folder(place / "plain", eos_token_id=256)
    sharded = write_folder(place / "sharded", sentencepiece_tokenizer(), shards=3, eos="</s>", num_hidden_layers=3)
    write_json(sharded / "generation_config.json", {"eos_token_id": [2], "bos_token_id": 1})
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    qwen = {"model_type": "qwen3", "head_dim": 8, "rope_scaling": {**scaling, "original_max_position_embeddings": 64}}
    write_folder(place / "qwen3", byte_level_tokenizer(bos=True), **qwen)
    import mlx_lm.utils

    source = write_folder(place / "packed", byte_level_tokenizer(), vocab_size=320)
    network, config = mlx_lm.utils.load_model(source)
    network, config = mlx_lm.utils.quantize_model(network, config, group_size=32, bits=4)
    mlx_lm.utils.save_model(source, network)
    write_json(source / "config.json", config)


def child(place: Path, first: int, count: int) -> None:
    """Make and load cases; one line of JSON each, before and behind it."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from gguf_files import network_metadata, random_weights, tensors_of, tokenizer_metadata
    from model_folders import LLAMA, byte_level_tokenizer, sentencepiece_tokenizer

    from engine.models import LoadError, load_model

    kinds: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number, (model_type, kind) in enumerate((("llama", "Q4_0"), ("llama", "Q8_0"), ("qwen3", "F16"))):
        tokenizer = byte_level_tokenizer() if number else sentencepiece_tokenizer()
        arguments = {**LLAMA, "model_type": model_type, "vocab_size": tokenizer.get_vocab_size(), "head_dim": 8}
        entries = network_metadata(arguments) | tokenizer_metadata(tokenizer)
        kinds.append((entries, tensors_of(arguments, random_weights(arguments), kind)))
    originals = sorted(entry for entry in place.iterdir() if entry.is_dir())
    for number in range(first, first + count):
        rng = random.Random(number)
        with tempfile.TemporaryDirectory(prefix="mutated-") as made:
            if number % 2:
                target = Path(made, "m.gguf")
                entries, tensors = rng.choice(kinds)
                what = mutate_gguf(target, lambda: (dict(entries), dict(tensors)), rng)  # noqa: B023
            else:
                target = Path(shutil.copytree(rng.choice(originals), Path(made, "m")))
                what = mutate_folder(target, rng)
            print(json.dumps([number, what, None]), flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            began = time.perf_counter()
            try:
                load_model(target, unpack=bool(rng.getrandbits(1)))
                outcome = "loaded"
            except LoadError as error:
                outcome = "refused" if str(error).strip() else "refused without a word"
                if os.environ.get("SHOW"):
                    print(json.dumps([number, "says", str(error)]), flush=True)
            except BaseException as error:
                outcome = f"raised {type(error).__name__}: {str(error)[:300]}"
            faulthandler.cancel_dump_traceback_later()
            if time.perf_counter() - began > SECONDS / 3:
                outcome = f"slow: {outcome}"
            print(json.dumps([number, what, outcome]), flush=True)


def run(place: Path, first: int, count: int) -> dict[int, tuple[str, str]]:
    """Outcome by number; a child that dies is replaced behind the case that it died of."""
    found: dict[int, tuple[str, str]] = {}
    at = first
    while at < first + count:
        command = [sys.executable, __file__, "--child", str(place), "--first", str(at)]
        command += ["--count", str(first + count - at)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        for line in done.stdout.splitlines():
            if not line.startswith("["):
                continue
            number, what, outcome = json.loads(line)
            if what == "says":
                print(number, outcome)
                continue
            found[number] = (what, outcome or f"died ({done.returncode}): {done.stderr.strip()[-1500:]}")
            at = number + 1
        if done.returncode and not done.stdout:
            raise SystemExit(done.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child), options.first, options.count)
        return 0
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    with tempfile.TemporaryDirectory(prefix="originals-") as made:
        write_originals(Path(made))
        found = run(Path(made), options.first, options.count)
    totals = collections.Counter(outcome.split(":")[0] for _, outcome in found.values())
    print(f"{len(found)} cases: " + ", ".join(f"{count} {outcome}" for outcome, count in totals.most_common()))
    bad = {n: entry for n, entry in found.items() if entry[1] not in ("loaded", "refused")}
    for number, (what, outcome) in sorted(bad.items()):
        print(f"case {number} ({what}): {outcome}")
    return 1 if bad or len(found) < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
