"""The commands without a window: their arguments, and the settings that they and the environment add up to."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.settings import CHAIN_ORDERS, DRAFTERS, REWINDS, SamplerSettings, Settings, SettingsError
from engine.switches import diagnostics_from_environment, stochastic_from_environment

DEFAULT_PROMPT = "It is a truth universally acknowledged, that"
LEVELS = ("debug", "info", "warning", "error")


class UsageError(ValueError):
    """Something that the user can mend; the text is all that is shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `run`, `ab` or `bench`. Returns the exit code: 0, 1 for a failed run, 2 for bad input, 130 for Ctrl+C."""
    options = parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("draftscope").setLevel(options.log_level.upper())
    try:
        if options.command == "run":
            from app.headless.run import run

            return run(options)
        if options.command == "ab":
            from app.headless.ab import ab

            return ab(options)
        from app.headless.bench import bench

        return bench(options)
    except ValueError as error:  # SettingsError, PromptError, LoadError, UsageError: made for people
        print(f"draftscope {options.command}: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(prog="draftscope")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="stream a text and end with the summary line, or print JSON")
    add_models(run)
    add_sampling(run)
    add_speculation(run)
    run.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    run.add_argument("--rounds", action="store_true", help="with --json: every round, too")
    ab = commands.add_parser("ab", help="compare the rules over temperatures and seeds")
    add_models(ab)
    ab.add_argument("--temps", default="0,0.7,1.0", help="temperatures, with commas (default: %(default)s)")
    ab.add_argument("--seeds", default="3", help="how many seeds, or a list with commas (default: %(default)s)")
    bench = commands.add_parser("bench", help="compare this engine's speed with mlx-lm's")
    add_models(bench)
    bench.add_argument("--repeats", type=int, default=5, help="interleaved repetitions (default: %(default)s)")
    for command in (ab, bench):
        command.add_argument("-n", "--max-tokens", type=int, default=128, help="tokens a run (default: %(default)s)")
        command.add_argument("-k", "--num-draft-tokens", type=int, default=4, help="drafts a round")
        command.add_argument("--json", action="store_true", help="print one JSON object")
    bench.add_argument("--seed", type=int, default=1)
    return top


def add_models(command: argparse.ArgumentParser) -> None:
    """Which models and which prompt; what every command takes."""
    command.add_argument("--target", help="folder of the target model (default: the bundled pair)")
    command.add_argument("--draft", help="folder of the draft model")
    command.add_argument("--toy", action="store_true", help="the 6-token toy instead of models")
    command.add_argument("--prompt", help=f"the prompt (default: {DEFAULT_PROMPT!r})")
    command.add_argument("--prompt-file", help="a file with the prompt, - for standard input")
    command.add_argument("--log-level", choices=LEVELS, default="warning")


def add_sampling(command: argparse.ArgumentParser) -> None:
    """Sampler settings of the target, and the drafter's own."""
    default = SamplerSettings()
    group = command.add_argument_group("sampling")
    group.add_argument("--temp", type=float, default=default.temperature, help="temperature (default: %(default)s)")
    group.add_argument("--top-k", type=int, default=default.top_k)
    group.add_argument("--top-p", type=float, default=default.top_p)
    group.add_argument("--min-p", type=float, default=default.min_p)
    group.add_argument("--chain-order", choices=CHAIN_ORDERS, default=default.chain_order)
    group.add_argument("--logit-bias", action="append", default=[], metavar="ID:VALUE")
    for name, kind in (
        ("repetition-penalty", float),
        ("repetition-window", int),
        ("dry-multiplier", float),
        ("dry-base", float),
        ("dry-allowed-length", int),
        ("dry-window", int),
        ("frequency-penalty", float),
        ("frequency-window", int),
        ("presence-penalty", float),
        ("presence-window", int),
        ("xtc-probability", float),
        ("xtc-threshold", float),
    ):
        group.add_argument(f"--{name}", type=kind, default=getattr(default, name.replace("-", "_")))
    group.add_argument("--no-penalize-prompt", action="store_true", help="penalties don't look at the prompt")
    for name, kind in (("temp", float), ("top-k", int), ("top-p", float), ("min-p", float)):
        group.add_argument(f"--draft-{name}", type=kind, help="the drafter's own (default: the target's)")


def add_speculation(command: argparse.ArgumentParser) -> None:
    """The round loop's settings and switches."""
    default = Settings()
    group = command.add_argument_group("speculation")
    group.add_argument("-n", "--max-tokens", type=int, default=default.max_tokens, help="-1: no limit")
    group.add_argument("-k", "--num-draft-tokens", type=int, default=default.num_draft_tokens)
    group.add_argument("--seed", type=int)
    group.add_argument("--stochastic", action=argparse.BooleanOptionalAction)
    group.add_argument("--kill-switch", action=argparse.BooleanOptionalAction)
    group.add_argument("--diagnostics", action=argparse.BooleanOptionalAction)
    group.add_argument("--rewind", choices=REWINDS, default=default.rewind)
    group.add_argument("--rule", default=default.rule, metavar="{auto,ID}")
    group.add_argument("--drafter", default=default.drafter, metavar="KIND[:ARG]", help=", ".join(DRAFTERS))
    group.add_argument("--prefill-chunk", type=int, default=default.prefill_chunk)
    group.add_argument("--stop", action="append", default=[], help="a string that ends the run; may be repeated")


def read_prompt(options: argparse.Namespace) -> str:
    """The prompt that was asked for, or one that fits the models."""
    if options.prompt is not None and options.prompt_file is not None:
        raise UsageError("--prompt and --prompt-file: expected one of them, got both")
    if options.prompt_file == "-":
        return sys.stdin.read()
    if options.prompt_file is not None:
        try:
            return Path(options.prompt_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--prompt-file {options.prompt_file}: expected a UTF-8 text file; {error}") from error
    if options.prompt is not None:
        return str(options.prompt)
    return "the cat" if options.toy else DEFAULT_PROMPT


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of `run`: arguments over environment. Raises SettingsError, UsageError."""
    names = (
        "top_k top_p min_p chain_order repetition_penalty repetition_window dry_multiplier dry_base "
        "dry_allowed_length dry_window frequency_penalty frequency_window presence_penalty presence_window "
        "xtc_probability xtc_threshold"
    )
    sampler = SamplerSettings(
        temperature=options.temp,
        logit_bias=tuple(map(parse_bias, options.logit_bias)),
        penalize_prompt=not options.no_penalize_prompt,
        **{name: getattr(options, name) for name in names.split()},
    )
    environment = stochastic_from_environment()
    stochastic, kill_switch = options.stochastic, options.kill_switch
    if kill_switch is None:
        kill_switch = environment is False and stochastic is not True
    return Settings(
        sampler=sampler,
        draft_sampler=draft_sampler_of(options, sampler),
        num_draft_tokens=options.num_draft_tokens,
        max_tokens=options.max_tokens,
        seed=options.seed,
        drafter=parse_drafter(options.drafter),
        prefill_chunk=options.prefill_chunk,
        stop=tuple(options.stop),
        rule=options.rule,
        stochastic=bool(environment) if stochastic is None else stochastic,
        kill_switch=kill_switch,
        diagnostics=diagnostics_from_environment() if options.diagnostics is None else options.diagnostics,
        rewind=options.rewind,
    )


def draft_sampler_of(options: argparse.Namespace, sampler: SamplerSettings) -> SamplerSettings | None:
    """The drafter's own sampler settings, None if it samples as the target does."""
    import dataclasses

    own = {
        "temperature": options.draft_temp,
        "top_k": options.draft_top_k,
        "top_p": options.draft_top_p,
        "min_p": options.draft_min_p,
    }
    given = {name: value for name, value in own.items() if value is not None}
    return dataclasses.replace(sampler, **given) if given else None


def parse_bias(text: str) -> tuple[int, float]:
    """`ID:VALUE`."""
    token, _, value = text.partition(":")
    try:
        return int(token), float(value)
    except ValueError:
        raise UsageError(f"--logit-bias: expected ID:VALUE, such as 12:-3.5, got {text!r}") from None


def parse_drafter(text: str) -> str:
    """`KIND[:ARG]`; none of the kinds built now takes an argument. Raises SettingsError."""
    kind, colon, argument = text.partition(":")
    if kind not in DRAFTERS:
        raise SettingsError(
            f"drafter: expected one of {', '.join(DRAFTERS)}; {kind!r} can't be built here, and nothing else is put "
            "in its place"
        )
    if colon:
        raise SettingsError(f"drafter: {kind} takes no argument, got {argument!r}")
    return kind
