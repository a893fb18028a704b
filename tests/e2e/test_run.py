"""`draftscope run`: lawful under every rule, streamed or as JSON, and mendable errors in one line with code 2."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys

import pytest

from engine import switches
from engine.generator import SpeculativeGenerator
from engine.models import bundled_pair_folders
from engine.rounds import Round
from engine.settings import SamplerSettings, Settings
from engine.statistics import wilson_interval
from engine.toy import toy_pair
from tests.e2e.headless import child, command, environment, lawful, start
from tests.validate_run import check

RULES = {
    "sampler-match": ("--no-stochastic",),
    "stochastic": ("--stochastic",),
    "sampler-match-no-proposal-distribution": ("--stochastic", "--drafter", "no-q"),
}
SUMMARY = re.compile(
    r"\[Speculative acceptance\] rule=(\S+) rounds=\d+ proposed=\d+ positions_tested=\d+ accepted=\d+ "
    r"per_position_acceptance=\S+ acceptance_rate=\S+ mean_accepted_len=\S+( closed_form_sum_min=\S+ "
    r"closed_form_sum_prod=\S+)? \((\S+) \([^)]+\)\)"
)
Capture = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("fresh_switches")


@pytest.mark.parametrize("temperature", ["0", "0.7", "1", "1.5"])
@pytest.mark.parametrize("k", range(9))
def test_every_rule_is_lawful(capsys: Capture, k: int, temperature: str) -> None:
    for rule, options in RULES.items():
        for more in ((), ("--diagnostics",)):
            found = lawful(capsys, "--toy", "-k", str(k), "--temp", temperature, "-n", "21", *options, *more)
            assert found["rule"] == ("greedy-argmax" if temperature == "0" else rule)
            assert len(found["tokens"]) == 21
            assert found["final_drift"] == 0
            assert max(r["k"] for r in found["rounds"]) == k


@pytest.mark.parametrize(
    "options",
    [
        "--drafter greedy",
        "--drafter greedy --stochastic",
        "--kill-switch --stochastic",
        "--rule stochastic",
        "--rule sampler-match --stochastic",
        "--top-k 2 --stochastic --draft-top-k 6",
        "--top-k 1",
        "--top-p 0.6 --min-p 0.1 --stochastic --chain-order mlx-lm",
        "--draft-temp 0 --stochastic",
        "--draft-temp 2 --draft-top-p 0.5 --draft-min-p 0.05 --stochastic",
        "--logit-bias 0:-3 --logit-bias 5:2 --stochastic",
        "--repetition-penalty 1.3 --frequency-penalty 0.2 --presence-penalty 0.1 --stochastic",
        "--repetition-penalty 1.3 --no-penalize-prompt --repetition-window 4",
        "--dry-multiplier 0.8 --dry-allowed-length 1 --stochastic",
        "--xtc-probability 0.5 --xtc-threshold 0.2 --stochastic",
        "--prefill-chunk 1 --stochastic",
        "--stop mat --stochastic",
        "--rewind legacy-rewind",
        "--rewind legacy-rewind --stochastic",
    ],
)
def test_every_option_is_lawful(capsys: Capture, options: str) -> None:
    for seed in ("1", str(2**64 - 1)):
        found = lawful(capsys, "--toy", "-n", "40", "--diagnostics", "--seed", seed, *options.split())
        assert found["settings"]["seed"] == int(seed)


def test_the_kill_switch_beats_everything(capsys: Capture) -> None:
    found = lawful(capsys, "--toy", "-n", "9", "--rule", "stochastic", "--stochastic", "--kill-switch")
    assert found["rule"] == "sampler-match"
    assert "kill switch" in found["rule_reason"]


@pytest.mark.parametrize("rule", [(), ("--stochastic",)])
@pytest.mark.parametrize("k", ["1", "2", "4", "8"])
def test_legacy_rewind_falls_behind_every_round(capsys: Capture, k: str, rule: tuple[str, ...]) -> None:
    found = lawful(capsys, "--toy", "-k", k, "-n", "60", "--rewind", "legacy-rewind", "--seed", "3", *rule)
    drifts = [0, *(r["drift"] for r in found["rounds"])]
    assert all(before < after for before, after in itertools.pairwise(drifts))
    assert found["final_drift"] == drifts[-1]


def test_it_is_the_engine_that_ran(capsys: Capture) -> None:
    found = lawful(capsys, "--toy", "--prompt-ids", "3,1", "-n", "30", "--seed", "11", "--stochastic", "--temp", "1.1")
    settings = Settings(sampler=SamplerSettings(temperature=1.1), max_tokens=30, seed=11)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=True)
    generator.start([3, 1])
    rounds: list[Round] = list(generator.rounds())
    assert found["tokens"] == generator.tokens
    drafts = [(d["token"], d["u"], d["p"]) for r in found["rounds"] for d in r["drafted"]]
    assert drafts == [(d.token, d.u, d.p) for r in rounds for d in r.drafts]


@pytest.mark.parametrize("options", [(), ("--stochastic",), ("--diagnostics",), ("--temp", "0")])
def test_streamed_or_as_json_the_text_is_the_same(capsys: Capture, options: tuple[str, ...]) -> None:
    arguments = ("--toy", "-n", "33", "--seed", "5", *options)
    full = lawful(capsys, *arguments)
    short = command(capsys, "run", "--json", *arguments)
    assert short.code == 0
    assert "rounds" not in short.object
    assert short.object["tokens"] == full["tokens"]
    assert short.object["summary"] == full["summary"]
    assert full["summary"] in short.err.splitlines()
    streamed = command(capsys, "run", *arguments)
    assert streamed.code == 0
    assert streamed.out == f"{full['text']}\n{full['summary']}\n"
    match = SUMMARY.fullmatch(full["summary"])
    assert match is not None
    assert match[1] == match[3] == full["rule"]
    assert (match[2] is not None) == ("--diagnostics" in options)


def test_a_stop_string_is_never_shown(capsys: Capture) -> None:
    free = lawful(capsys, "--toy", "-n", "60", "--seed", "2")
    stop = free["text"][30:38]
    found = lawful(capsys, "--toy", "-n", "60", "--seed", "2", "--stop", stop)
    streamed = command(capsys, "run", "--toy", "-n", "60", "--seed", "2", "--stop", stop)
    assert found["finish_reason"] == "stop"
    assert found["text"] == free["text"][: free["text"].index(stop)]
    assert streamed.out.startswith(found["text"] + "\n[Speculative")


@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_count_is_what_was_asked(capsys: Capture, n: int) -> None:
    found = lawful(capsys, "--toy", "-n", str(n))
    assert len(found["tokens"]) == found["statistics"]["emitted"] == n
    assert found["finish_reason"] == "length"


def test_a_seed_is_drawn_shown_and_repeatable(capsys: Capture) -> None:
    first = lawful(capsys, "--toy", "-n", "25")
    second = lawful(capsys, "--toy", "-n", "25")
    seed = first["settings"]["seed"]
    assert seed != second["settings"]["seed"]
    again = command(capsys, "run", "--json", "--toy", "-n", "25", "--seed", str(seed))
    assert again.object["tokens"] == first["tokens"]
    assert f"seed {seed};" in again.err


def test_what_is_not_as_asked_is_said(capsys: Capture) -> None:
    done = command(
        capsys, "run", "--toy", "--json", "-n", "9", "-k", "0", "--top-k", "151936", "--stochastic", "--kill-switch"
    )
    assert done.code == 0
    notices = done.object["notices"]
    assert any("k is 0: plain decoding" in n and "six-word toy draft" in n for n in notices)
    assert any("top-k 151936 has no effect" in n for n in notices)
    for notice in notices:
        assert f"notice: {notice}" in done.err
    assert "rule: sampler-match (fresh target draw): the kill switch is on" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--drafter prompt-lookup", "; no draft, drafter prompt-lookup, k 4; "),
        ("--drafter greedy", ", drafter greedy, k 4; "),
    ],
)
def test_a_drafter_without_a_model_is_named_too(capsys: Capture, options: str, words: str) -> None:
    assert words in command(capsys, "run", "--toy", "-n", "2", *options.split()).err


def test_a_target_alone_is_said_to_have_no_drafter(capsys: Capture) -> None:
    done = command(capsys, "run", "--target", str(bundled_pair_folders()[0]), "-n", "1")
    assert "; no draft, no drafter, k 4; " in done.err


@pytest.mark.parametrize("top_k", ["6", "7", "151936"])
def test_a_top_k_of_the_whole_vocabulary_is_off(capsys: Capture, top_k: str) -> None:
    off = lawful(capsys, "--toy", "-n", "20", "--seed", "4")
    assert lawful(capsys, "--toy", "-n", "20", "--seed", "4", "--top-k", top_k)["tokens"] == off["tokens"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--temp -1", "temperature: expected a finite number >= 0, got -1.0"),
        ("--temp=-inf", "temperature"),
        ("--temp inf", "temperature"),
        ("--temp nan", "temperature"),
        ("--min-p 1.5", "min_p: expected a number in [0, 1], got 1.5"),
        ("--top-k -1", "top_k"),
        ("--top-p nan", "top_p"),
        ("--xtc-threshold 0.9", "xtc_threshold"),
        ("--repetition-penalty 0", "repetition_penalty"),
        ("--frequency-penalty nan", "frequency_penalty"),
        ("--dry-base 0.5", "dry_base"),
        ("--chain-order llama", "chain_order: expected one of"),
        ("--draft-temp -0.1", "temperature"),
        ("--logit-bias 3", "--logit-bias: expected ID:VALUE"),
        ("--logit-bias 3:inf", "finite bias for id 3"),
        ("-n 0", "max_tokens: expected a whole number >= 1, or -1 for no limit, got 0"),
        ("-n -2", "max_tokens"),
        ("-k -1", "num_draft_tokens"),
        ("--seed -1", "seed: expected a whole number from 0 to 2^64 - 1, got -1"),
        ("--seed 18446744073709551616", "seed"),
        ("--prefill-chunk 0", "prefill_chunk"),
        ("--rewind backwards", "rewind: expected one of"),
        ("--main-rewind drop-debt", "main_rewind: expected one of"),
        ("--drafter mtp", "mtp is a kind of drafter that this version can't build"),
        ("--drafter dflash:x", "dflash is a kind of drafter"),
        ("--drafter medusa", "'medusa' is no kind of drafter"),
        ("--rule nonsense", "'nonsense' is no rule"),
        ("--rule greedy-argmax", "greedy-argmax needs temperature 0"),
        ("--prompt-ids 3,x", "--prompt-ids: expected token ids"),
        ("--prompt-ids=", "prompt must be non-empty"),
        ("--prompt-ids 3,-1", "prompt token -1 is outside the vocabulary"),
        ("--prompt=", "the prompt must be non-empty"),
        ("--prompt dog", "doesn't know 'dog'"),
        ("--prompt-file /nowhere/at/all", "--prompt-file: /nowhere/at/all can't be read"),
        ("--target /nowhere", "--target and --toy can't both be"),
        ("--stop=", "stop: expected strings that are not empty"),
        ("--rounds", "--rounds goes with --json"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys: Capture, options: str, words: str) -> None:
    done = command(capsys, "run", "--toy", *options.split())
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("draftscope run: ")
    assert done.err.count("\n") == 1, done.err
    assert words in done.err


def test_a_prompt_of_one_space_is_refused(capsys: Capture) -> None:
    done = command(capsys, "run", "--json", "--prompt", " ")
    assert (done.code, done.out) == (2, "")
    assert "the prompt is blank: expected text that isn't only white space" in done.err


@pytest.mark.parametrize("options", [("--target", "/nowhere/model"), ("--draft", "/nowhere/model")])
def test_a_folder_that_is_not_there_is_refused_before_any_is_loaded(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr("engine.models.load_model_folder", lambda *_: pytest.fail("a model was loaded"))
    done = command(capsys, "run", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "/nowhere/model: no such folder" in done.err


@pytest.mark.parametrize("token", ["6", "9", "1000000"])
def test_a_bias_outside_the_vocabulary_is_refused_before_it_can_kill_the_process(token: str) -> None:
    done = child("run", "--toy", "--logit-bias", f"{token}:100")
    assert (done.code, done.out) == (2, "")
    assert f"logit_bias: expected token ids below 6 (the vocabulary), got {token}" in done.err


@pytest.mark.parametrize("token", ["70", "9999"])
def test_a_prompt_id_outside_the_vocabulary_is_refused_before_it_can_kill_the_process(token: str) -> None:
    done = child("run", "--toy", "--json", "--prompt-ids", f"3,{token}")
    assert (done.code, done.out) == (2, "")
    assert f"prompt token {token} is outside the vocabulary: expected ids below 6" in done.err


@pytest.mark.parametrize(
    ("value", "options", "rule"),
    [("1", (), "stochastic"), ("0", (), "sampler-match"), ("0", ("--stochastic",), "stochastic")],
)
def test_the_environment_sets_the_start(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, value: str, options: tuple[str, ...], rule: str
) -> None:
    monkeypatch.setenv(switches.STOCHASTIC, value)
    found = lawful(capsys, "--toy", "-n", "9", *options)
    assert found["rule"] == rule
    assert found["settings"]["kill_switch"] == (value == "0" and not options)


def test_an_environment_switch_that_is_none_is_refused(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(switches.STOCHASTIC, "perhaps")
    done = command(capsys, "run", "--toy", "--stochastic")
    assert (done.code, done.out) == (2, "")
    assert f"{switches.STOCHASTIC}: expected one of" in done.err


def test_log_lines_are_shown_on_demand() -> None:
    quiet = child("run", "--toy", "-n", "30", "--stochastic", "--seed", "1")
    told = child("run", "--toy", "-n", "30", "--stochastic", "--seed", "1", "--log-level", "info")
    assert quiet.out == told.out
    line = (
        'speculative acceptance rule active rule="stochastic (modified rejection sampling)" '
        "distribution_preserving=true"
    )
    assert line not in quiet.err
    assert told.err.count(line) == 1
    assert "speculative decode finished rule=stochastic" in told.err


@pytest.mark.parametrize("name", ["run", "ab", "bench"])
def test_help_needs_no_display_no_qt_and_no_mlx(name: str) -> None:
    code = (
        "import sys\nfrom app.__main__ import main\n"
        f"try: main([{name!r}, '--help'])\nexcept SystemExit as end: print('code', end.code)\n"
        "print('heavy', sorted(m for m in sys.modules if m.split('.')[0] in ('PySide6', 'mlx', 'pyqtgraph', 'mlx_lm')))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"usage: draftscope {name}" in done.stdout
    assert done.stdout.endswith("code 0\nheavy []\n")


def test_a_prompt_from_standard_input() -> None:
    done = child("run", "--toy", "--json", "-n", "5", "--prompt-file", "-", stdin="a mat on\nthe cat\n")
    assert done.code == 0
    assert done.object["prompt"] == "a mat on\nthe cat\n"
    assert done.object["prompt_tokens"] == [4, 5, 3, 0, 1]
    assert child("run", "--toy", "--prompt-file", "-", stdin="\n").code == 2


def test_ctrl_c_ends_the_run_at_a_round_and_still_reports() -> None:
    process = start("run", "--toy", "-n", "-1", "--json", "--rounds", "--stochastic")
    assert process.stderr is not None
    while not process.stderr.readline().startswith("rule: stochastic"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "draftscope run: cancelled: Stopped." in err
    found = json.loads(out)
    assert found["finish_reason"] == "cancelled"
    assert len(found["tokens"]) == found["statistics"]["emitted"] > 0
    assert list(check(found)) == []


def test_ctrl_c_while_streaming_ends_with_the_summary_line() -> None:
    process = start("run", "--toy", "-n", "-1")
    assert process.stdout is not None
    assert process.stdout.read(40)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert SUMMARY.fullmatch(out.splitlines()[-1])


def test_a_reader_that_leaves_is_no_fault() -> None:
    with start("run", "--toy", "-n", "-1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(40)
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


# The bundled pair.


def test_the_bundled_pair_sits_at_its_closed_form(capsys: Capture) -> None:
    found = lawful(capsys, "--temp", "0.7", "--seed", "1234", "-n", "256", "--stochastic", "--diagnostics")
    statistics = found["statistics"]
    assert found["rule"] == "stochastic"
    assert found["final_drift"] == found["max_abs_drift"] == 0
    assert found["host_syncs"] == statistics["rounds"]
    # z for 1 in 10,000: another BLAS draws another text.
    interval = wilson_interval(statistics["accepted"], statistics["positions_tested"], 3.89)
    assert interval is not None
    assert interval[0] <= statistics["closed_form_sum_min"] <= interval[1]
    assert statistics["closed_form_sum_min"] > 1.5 * statistics["closed_form_sum_prod"]


def test_the_bundled_pair_is_lawful_without_its_draft_and_at_temperature_0(capsys: Capture) -> None:
    target, draft = map(str, bundled_pair_folders())
    greedy = lawful(capsys, "--temp", "0", "-n", "24", "-k", "3")
    assert greedy["rule"] == "greedy-argmax"
    alone = lawful(capsys, "--target", target, "--temp", "0", "-n", "24")
    assert alone["models"]["draft"] is None
    assert any("No draft model" in notice for notice in alone["notices"])
    assert alone["rounds"][0]["draft"] is None
    assert alone["tokens"][:8] == greedy["tokens"][:8]
    itself = lawful(capsys, "--target", target, "--draft", target, "-n", "12", "--stochastic")
    assert any("the same model" in notice for notice in itself["notices"])
    assert itself["statistics"]["per_position_acceptance"] == 1.0
    assert draft != target


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(capsys: Capture) -> None:
    done = command(capsys, "run", "--prompt-ids", " ".join(["7"] * 1025))
    assert (done.code, done.out) == (2, "")
    assert "1025 tokens" in done.err
    assert "1024" in done.err


def test_without_a_limit_the_run_goes_to_the_contexts_end(capsys: Capture) -> None:
    ids = " ".join(["300"] * 1010)
    for rule in ((), ("--stochastic",)):
        found = lawful(capsys, "--prompt-ids", ids, "-n", "-1", "--seed", "3", *rule)
        assert found["finish_reason"] == "length"
        assert len(found["tokens"]) == 15
        assert "1024" in found["finish_notice"]
