"""The command line: what options and environment add up to, refusals in words, and what a terminal is shown."""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from pathlib import Path

import pytest

from app import cli
from app.__main__ import parser as window_parser
from app.headless import ab, request, terminal
from app.headless.request import UserError
from engine import switches
from engine.settings import RULE_CHOICES, SamplerSettings, Settings, SettingsError

pytestmark = pytest.mark.usefixtures("fresh_switches")


def parsed(*arguments: str) -> argparse.Namespace:
    return cli.run_parser().parse_args(arguments)


def settings(*arguments: str) -> Settings:
    return request.run_settings(parsed(*arguments))


SAMPLER_CASES = [
    ("--temp 1.5", "temperature", 1.5),
    ("--top-k 7", "top_k", 7),
    ("--top-p 0.9", "top_p", 0.9),
    ("--min-p 0.05", "min_p", 0.05),
    ("--chain-order mlx-lm", "chain_order", "mlx-lm"),
    ("--repetition-penalty 1.3", "repetition_penalty", 1.3),
    ("--repetition-window 20", "repetition_window", 20),
    ("--dry-multiplier 0.8", "dry_multiplier", 0.8),
    ("--dry-base 2", "dry_base", 2.0),
    ("--dry-allowed-length 3", "dry_allowed_length", 3),
    ("--dry-window 99", "dry_window", 99),
    ("--frequency-penalty 0.4", "frequency_penalty", 0.4),
    ("--frequency-window 11", "frequency_window", 11),
    ("--presence-penalty -0.4", "presence_penalty", -0.4),
    ("--presence-window 12", "presence_window", 12),
    ("--xtc-probability 0.5", "xtc_probability", 0.5),
    ("--xtc-threshold 0.2", "xtc_threshold", 0.2),
    ("--no-penalize-prompt", "penalize_prompt", False),
    ("--logit-bias 3:-5 --logit-bias 1:0.5", "logit_bias", ((3, -5.0), (1, 0.5))),
]
RUN_CASES = [
    ("-k 7", "num_draft_tokens", 7),
    ("--num-draft-tokens 0", "num_draft_tokens", 0),
    ("-n -1", "max_tokens", -1),
    ("--max-tokens 5", "max_tokens", 5),
    ("--seed 18446744073709551615", "seed", 2**64 - 1),
    ("--seed 0x10", "seed", 16),
    ("--stochastic", "stochastic", True),
    ("--kill-switch", "kill_switch", True),
    ("--diagnostics", "diagnostics", True),
    ("--rewind legacy-rewind", "rewind", "legacy-rewind"),
    ("--main-rewind no-trim", "main_rewind", "no-trim"),
    ("--rule stochastic", "rule", "stochastic"),
    ("--rule raw-q", "rule", "raw-q"),
    ("--drafter greedy", "drafter", "greedy"),
    ("--drafter no-q", "drafter", "no-q"),
    ("--prefill-chunk 64", "prefill_chunk", 64),
    ("--stop abc --stop de", "stop", ("abc", "de")),
]


@pytest.mark.parametrize(("text", "name", "value"), SAMPLER_CASES)
def test_each_sampler_option_changes_its_field_alone(text: str, name: str, value: object) -> None:
    assert settings(*text.split()).sampler == dataclasses.replace(SamplerSettings(), **{name: value})


@pytest.mark.parametrize(("text", "name", "value"), RUN_CASES)
def test_each_run_option_changes_its_field_alone(text: str, name: str, value: object) -> None:
    plain = dataclasses.replace(Settings(), record=name == "diagnostics")
    assert settings(*text.split()) == dataclasses.replace(plain, **{name: value})


def test_the_full_vocabulary_is_kept_where_something_keeps_it() -> None:
    assert settings("--record", "a.draftscope", "--full-vocabulary").full_vocabulary
    assert settings("--json", "--rounds", "full", "--full-vocabulary").full_vocabulary
    assert not settings("--record", "a.draftscope").full_vocabulary
    for options in ([], ["--json", "--rounds"], ["--diagnostics"]):
        with pytest.raises(UserError, match="goes with --record"):
            settings("--full-vocabulary", *options)


@pytest.mark.parametrize("words", ["--size ²x²", "--size ²00x900", "--after ²", "--select ²", "--select 3:²"])
def test_digits_that_are_no_numbers_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        window_parser().parse_args(words.split())
    assert "expected" in capsys.readouterr().err


NUMERIC = [
    (parser, option)
    for parser in (*cli.PARSERS.values(), window_parser)
    for action in parser()._actions
    if action.type in (cli.number, cli.whole, float, int)
    for option in action.option_strings
]


@pytest.mark.parametrize("value", ["-1e38", "-1E-3", "-.5e+1", "-2.e3", "-7", "-inf"])
def test_every_numeric_option_takes_a_negative_number_as_a_word_of_its_own(value: str) -> None:
    assert {"--frequency-penalty", "-n", "--draft-temp", "--min-p"} <= {option for _, option in NUMERIC}
    for make, option in NUMERIC:
        parser = make()
        action = next(a for a in parser._actions if option in a.option_strings)
        try:
            wanted = action.type(value)
        except (argparse.ArgumentTypeError, ValueError):
            continue  # no whole number
        assert getattr(parser.parse_args([option, value, *needed(parser)]), action.dest) == wanted, option


def needed(parser: argparse.ArgumentParser) -> list[str]:
    """Words for what can't be left out."""
    words = []
    for action in parser._actions:
        if not action.option_strings and action.nargs is None:
            words.append("FILE")
        elif action.required and action.option_strings:
            words += [action.option_strings[0], *list(action.choices or ["x"])[:1]]
    return words


def test_a_negative_number_stays_a_number_behind_options_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed("--json", "-1e38")
    assert "unrecognized arguments: -1e38" in capsys.readouterr().err
    assert request.prompt_of(parsed("--prompt", "-1e38")) == "-1e38"
    assert request.prompt_of(parsed("--prompt-ids", "-1,2")) == [-1, 2]


def test_every_sampler_field_has_an_option() -> None:
    assert {name for _, name, _ in SAMPLER_CASES} == {f.name for f in dataclasses.fields(SamplerSettings)}


def test_the_drafter_samples_as_the_target_unless_told() -> None:
    assert settings("--temp", "1.2", "--top-k", "9").draft_sampler is None
    drafting = settings("--temp", "1.2", "--top-k", "9", "--draft-temp", "0.3").drafting
    assert drafting == SamplerSettings(temperature=0.3, top_k=9)
    drafting = settings("--draft-top-k", "2", "--draft-top-p", "0.5", "--draft-min-p", "0.1").drafting
    assert drafting == SamplerSettings(top_k=2, top_p=0.5, min_p=0.1)


@pytest.mark.parametrize(
    ("environment", "arguments", "stochastic", "kill_switch"),
    [
        (None, "", False, False),
        ("1", "", True, False),
        (" On ", "", True, False),
        ("0", "", False, True),
        ("0", "--stochastic", True, False),
        ("0", "--no-kill-switch", False, False),
        ("1", "--no-stochastic", False, False),
        ("1", "--kill-switch", True, True),
        ("0", "--stochastic --kill-switch", True, True),
        (None, "--stochastic --kill-switch", True, True),
    ],
)
def test_options_override_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: str | None, arguments: str, stochastic: bool, kill_switch: bool
) -> None:
    if environment is not None:
        monkeypatch.setenv(switches.STOCHASTIC, environment)
    found = settings(*arguments.split())
    assert (found.stochastic, found.kill_switch) == (stochastic, kill_switch)


@pytest.mark.parametrize(
    ("value", "arguments", "wanted"),
    [(None, "", False), ("yes", "", True), ("1", "--no-diagnostics", False), ("0", "--diagnostics", True)],
)
def test_diagnostics_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str | None, arguments: str, wanted: bool
) -> None:
    if value is not None:
        monkeypatch.setenv(switches.DIAGNOSTICS, value)
    assert settings(*arguments.split()).diagnostics is wanted


@pytest.mark.parametrize("name", [switches.STOCHASTIC, switches.DIAGNOSTICS])
def test_a_switch_that_is_no_switch_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "maybe")
    with pytest.raises(SettingsError, match=rf"{name}: expected .*got 'maybe'"):
        settings()


def test_records_are_made_only_for_what_shows_them() -> None:
    assert not settings().record
    assert not settings("--json").record
    assert settings("--json", "--rounds").record
    assert settings("--diagnostics").record


@pytest.mark.parametrize("kind", ["mtp", "dflash", "dflash:some/folder"])
def test_a_drafter_that_is_not_built_is_refused_in_words(kind: str) -> None:
    with pytest.raises(UserError, match=r"can't build.*sample, greedy and no-q.*none is put in its place"):
        settings("--drafter", kind)


@pytest.mark.parametrize(
    ("text", "words"), [("ngram", "'ngram' is no kind"), ("", "'' is no kind"), ("sample:3", "takes no argument")]
)
def test_other_drafters_are_refused_too(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        settings("--drafter", text)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("best", "no rule known"),
        ("sampler-match-no-proposal-distribution", "can't be asked for"),
    ],
)
def test_a_rule_that_cannot_be_asked_for_is_refused_in_words(rule: str, words: str) -> None:
    with pytest.raises(UserError, match=rf"{words}.*stochastic"):
        settings("--rule", rule)


def test_the_rules_on_offer_are_the_engines() -> None:
    from engine.acceptance import RULES

    assert {settings("--rule", rule).rule for rule in RULE_CHOICES} == set(RULE_CHOICES)
    assert set(RULE_CHOICES) - {"auto"} <= set(RULES)


@pytest.mark.parametrize(
    ("pair", "words"), [("3", "ID:VALUE"), ("a:1", "ID:VALUE"), ("3:x", "ID:VALUE"), ("3:nan", "finite bias")]
)
def test_a_bias_of_another_form_is_refused(pair: str, words: str) -> None:
    with pytest.raises((UserError, SettingsError), match=words):
        settings("--logit-bias", pair)


def test_a_bias_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="id 3 is given twice"):
        settings("--logit-bias", "3:1", "--logit-bias", "3:2")


def test_rounds_without_json_are_refused() -> None:
    with pytest.raises(UserError, match="--rounds goes with --json"):
        settings("--rounds")


def test_the_windows_prompts_are_the_command_lines() -> None:
    session = pytest.importorskip("app.session")
    assert (session.DEFAULT_PROMPT, session.TOY_PROMPT) == (request.DEFAULT_PROMPT, request.TOY_PROMPT)


def test_prompts() -> None:
    assert request.prompt_of(parsed()) == request.DEFAULT_PROMPT
    assert request.prompt_of(parsed("--toy")) == request.TOY_PROMPT
    assert request.prompt_of(parsed("--prompt", " a b ")) == " a b "
    assert request.prompt_of(parsed("--prompt-ids", "3, 5 7")) == [3, 5, 7]


@pytest.mark.parametrize("blank", [" ", "\n\t ", "\u00a0\u2003", " " * 100_000])
def test_a_blank_prompt_is_refused_as_blank(blank: str) -> None:
    with pytest.raises(
        UserError, match=r"^the prompt is blank: expected text that isn't only white space, got"
    ) as found:
        request.prompt_of(parsed("--prompt", blank))
    assert len(str(found.value)) < 120
    assert "non-empty" not in str(found.value)


def test_an_empty_prompt_is_refused_as_empty() -> None:
    with pytest.raises(UserError, match=r"^the prompt must be non-empty: expected some text"):
        request.prompt_of(parsed("--prompt="))


def test_a_prompt_file_is_read_as_utf8(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes("\ufeffé\u2028x\r\n".encode())
    (tmp_path / "bad").write_bytes(b"ab\xff")
    assert request.prompt_of(parsed("--prompt-file", str(tmp_path / "good"))) == "é\u2028x\r\n"
    with pytest.raises(UserError, match=r"UTF-8 text.* at 2"):
        request.prompt_of(parsed("--prompt-file", str(tmp_path / "bad")))
    with pytest.raises(UserError, match="can't be read"):
        request.prompt_of(parsed("--prompt-file", str(tmp_path)))


@pytest.mark.parametrize("arguments", [("--prompt", "a", "--prompt-file", "b"), ("--prompt", "a", "--prompt-ids", "1")])
def test_two_prompts_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed(*arguments)
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["--see 1", "--temp", "--temp warm", "--seed 1.5", "--nonsense", "--log-level loud"])
def test_the_parser_refuses_in_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed(*text.split())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("draftscope run: ")
    assert err.count("\n") == 1


def test_a_failed_run_of_a_comparison_is_one_line_and_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(options: argparse.Namespace) -> int:
        raise request.RunError("a run failed: \x1b[2J")

    monkeypatch.setattr(ab, "ab", fail)
    assert cli.main(["ab", "--toy"]) == 1
    assert capsys.readouterr().err == "draftscope ab: a run failed: <U+001B>[2J\n"


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


HOSTILE = "a\x1b[2J\r\b\x00\x7f\x9b1m\u202e\n\tb é🙂"


def test_a_terminal_is_shown_no_control_characters() -> None:
    screen = Screen()
    terminal.TextOut(screen).show(HOSTILE)
    assert screen.getvalue() == "a\\x1b[2J\\x0d\\x08\\x00\\x7f\\x9b1m\\u202e\n\tb é🙂"


def test_a_pipe_gets_the_text_as_it_is() -> None:
    pipe = io.StringIO(newline="")
    terminal.TextOut(pipe).show(HOSTILE)
    assert pipe.getvalue() == HOSTILE


@pytest.mark.parametrize(
    ("texts", "wanted"), [(["a", "ab", "ab"], "ab\nend\n"), (["a\n"], "a\nend\n"), ([""], "end\n")]
)
def test_the_last_line_stands_alone(texts: list[str], wanted: str) -> None:
    stream = io.StringIO()
    out = terminal.TextOut(stream)
    for text in texts:
        out.show(text)
    out.line("end")
    assert stream.getvalue() == wanted


def test_what_is_said_while_text_streams_begins_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    out = terminal.TextOut(screen)
    terminal.say("first")
    out.show("one two")
    terminal.say("check")
    terminal.say("again")
    out.show("one two three")
    terminal.say("check")
    out.line("end")
    assert screen.getvalue() == "first\none two\ncheck\nagain\n three\ncheck\nend\n"
    terminal.say("behind")
    assert screen.getvalue().endswith("end\nbehind\n")


@pytest.mark.parametrize("piped", ["stdout", "stderr"])
def test_what_goes_into_a_pipe_gets_no_line_breaks_for_the_other_stream(
    monkeypatch: pytest.MonkeyPatch, piped: str
) -> None:
    text, said = (io.StringIO(), Screen()) if piped == "stdout" else (Screen(), io.StringIO())
    monkeypatch.setattr(sys, "stderr", said)
    out = terminal.TextOut(text)
    out.show("one two")
    terminal.say("check")
    out.show("one two three")
    out.line("end")
    assert text.getvalue() == "one two three\nend\n"
    assert said.getvalue() == "check\n"


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"a": "\u2028é\ud800", "b": None})
    assert capsys.readouterr().out == '{"a": "\\u2028\\u00e9\\ud800", "b": null}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.print_json({"a": float("nan")})


def test_table_aligns() -> None:
    assert terminal.table(("a", "bb"), [("long", "1"), ("x", "100")]) == "a      bb\n----  ---\nlong    1\nx     100"


@pytest.mark.parametrize(
    ("text", "wanted"), [("3", [1, 2, 3]), ("7,8", [7, 8]), ("1234,", [1234]), ("7 9", [7, 9]), ("1", [1])]
)
def test_seeds(text: str, wanted: list[int]) -> None:
    assert ab.parse_seeds(text) == wanted


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1.5", "-1,2", str(2**64) + ",", "5000"])
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises((UserError, SettingsError), match="seed"):
        ab.parse_seeds(text)


def test_temperatures() -> None:
    assert ab.parse_temperatures("0,0.7, 1.0") == [0.0, 0.7, 1.0]
    for text in ("", "warm", ","):
        with pytest.raises(UserError, match="--temps"):
            ab.parse_temperatures(text)
