"""Do two tokenizers have the same entries? Their files read and compared, in a process of its own.

Python reads a large tokenizer.json in one go, holding every other thread of its process up for half a second; so
`compare_tokenizers` has a child do it, and waits for that.
"""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_UNUSED = 5  # tokenizer.ggml.token_type of an id that stands for nothing
_WAIT = 0.02  # seconds between two looks at the child
_SHOWN = 60  # characters of an entry in a sentence
_SPELLINGS = 0.02  # of all entries: so many a GGUF file may spell in another way than tokenizer.json does


@dataclass(frozen=True)
class Verdict:
    """`agree`: None where it can't be told before the models are loaded. `words`: a sentence."""

    agree: bool | None
    words: str


def compare_tokenizers(target: Path, draft: Path, cancelled: Callable[[], bool]) -> Verdict:
    """Compare two model folders or GGUF files; for as long as a child takes that reads both."""
    files = [path if path.is_file() else path / "tokenizer.json" for path in (target, draft)]
    if not all(file.is_file() for file in files):
        return Verdict(None, "Whether both have one tokenizer is told when they are loaded: one has no tokenizer.json.")
    if files[0] == files[1] or filecmp.cmp(files[0], files[1], shallow=False):
        return Verdict(True, "Both have the same tokenizer.")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "app.token_names", *map(str, files)]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while child.poll() is None:
            if cancelled():
                return Verdict(None, "")
            time.sleep(_WAIT)
        assert child.stdout is not None
        said = child.stdout.read()
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    return _verdict(said, mixed=files[0].suffix != files[1].suffix)


def _verdict(said: str, mixed: bool) -> Verdict:
    try:
        found = json.loads(said)
        if found is None:
            return Verdict(True, "Both tokenizers have the same entries.")
        token, ours, theirs = int(found["id"]), str(found["ours"]), str(found["theirs"])
        few = found["differing"] <= found["common"] * _SPELLINGS
    except (ValueError, TypeError, KeyError):
        return Verdict(None, "Whether both have one tokenizer is told when they are loaded: a file can't be read.")
    words = f"id {token} is {_short(ours)} in the target and {_short(theirs)} in the draft"
    if mixed and few:
        return Verdict(None, f"The tokenizers may differ, and the pair be refused: {words}.")
    return Verdict(False, f"The tokenizers differ: {words}. Choose two models of one family.")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def entries(file: Path) -> dict[int, str]:
    """What every id of a tokenizer.json or a GGUF file is written as. Raises ValueError for another form."""
    if file.suffix == ".json":
        return _json_entries(json.loads(file.read_bytes()))
    from engine.gguf import read_gguf

    metadata = read_gguf(file).metadata
    texts, kinds = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type", [])
    unused = {token for token, kind in enumerate(kinds) if kind == _UNUSED}
    return {token: text for token, text in enumerate(texts) if token not in unused}


def _json_entries(tokenizer: dict[str, Any]) -> dict[int, str]:
    vocabulary = tokenizer["model"]["vocab"]
    if isinstance(vocabulary, dict):
        found = {token: text for text, token in vocabulary.items()}
    else:
        found = {token: entry[0] for token, entry in enumerate(vocabulary)}  # Unigram: (text, score)
    return found | {entry["id"]: entry["content"] for entry in tokenizer.get("added_tokens", ())}


def difference(ours: dict[int, str], theirs: dict[int, str]) -> dict[str, Any] | None:
    """The first id that stands for something else in the two, and how many do; ids that one lacks don't count."""
    common = ours.keys() & theirs.keys()
    differing = [token for token in common if ours[token] != theirs[token]]
    if not differing:
        return None
    first = min(differing)
    counts = {"differing": len(differing), "common": len(common)}
    return {"id": first, "ours": ours[first], "theirs": theirs[first], **counts}


if __name__ == "__main__":
    print(json.dumps(difference(*(entries(Path(name)) for name in sys.argv[1:3]))))
