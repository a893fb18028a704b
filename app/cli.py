"""The command line of the commands without a window. Parsing needs neither MLX nor Qt, so --help is instant."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from app.headless.request import DEFAULT_PROMPT, RunError, UserError
from app.headless.terminal import say
from engine.settings import (
    CHAIN_ORDERS,
    KV_BITS,
    KV_GROUPS,
    MAIN_REWINDS,
    REWINDS,
    RULE_CHOICES,
    SamplerSettings,
    Settings,
    SettingsError,
)

_SAMPLER = SamplerSettings()
_SETTINGS = Settings()


NEGATIVE = re.compile(r"-(\.?\d|inf)", re.IGNORECASE)
"""How a word begins that is a negative number, or a list of numbers, and no option."""


class Parser(argparse.ArgumentParser):
    """Takes every negative number for an option's value: argparse's own pattern doesn't know -1e38 or -inf."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._negative_number_matcher = NEGATIVE


class _Parser(Parser):
    """One clear line instead of the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def whole(text: str) -> int:
    """A whole number, also as 0x10; its range is the engine's to check."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def number(text: str) -> float:
    """Any float; its range is the engine's to check."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def _command(name: str, description: str, epilog: str, with_json: bool = True) -> argparse.ArgumentParser:
    made = _Parser(
        prog=f"draftscope {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_output(made, with_json)
    return made


def _add_output(made: argparse.ArgumentParser, with_json: bool = True) -> None:
    if with_json:
        made.add_argument("--json", action="store_true", help="print one JSON object, nothing else, on standard output")
    made.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="log lines on standard error",
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models (default: the bundled pair)")
    group.add_argument(
        "--target",
        metavar="MODEL",
        help="target: an mlx-lm folder, a .gguf file, or an id in the Hugging Face cache (see draftscope models); "
        "without --draft nothing is drafted, unless --drafter names what needs no draft model",
    )
    group.add_argument("--draft", metavar="MODEL", help="draft model of the same vocabulary")
    group.add_argument(
        "--unpack", action="store_true", help="take GGUF types that can't be held packed, in more memory"
    )
    group.add_argument("--allow-large", action="store_true", help="try models that would not fit into the free memory")
    group.add_argument("--toy", action="store_true", help="the 6-token toy in place of models")


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt").add_mutually_exclusive_group()
    group.add_argument("--prompt", metavar="TEXT", help=f"the text to go on from (default: {DEFAULT_PROMPT!r})")
    group.add_argument("--prompt-file", metavar="FILE", help="read it from a UTF-8 file, or from standard input for -")
    group.add_argument("--prompt-ids", metavar="IDS", help="token ids in place of text: 3,5,7")


def _add_chat(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("chat")
    group.add_argument("--chat", action="store_true", help="put the prompt into the target's chat template")
    group.add_argument("--system", metavar="TEXT", help="what the system says before it; goes with --chat")


def _add_sampler(parser: argparse.ArgumentParser) -> None:
    """Everything between logits and distribution, but the temperature."""
    group = parser.add_argument_group("sampler")
    group.add_argument("--top-k", type=whole, metavar="N", help="0: off")
    group.add_argument("--top-p", type=number, metavar="P", help="0 or 1: off")
    group.add_argument("--min-p", type=number, metavar="P", help="0: off")
    group.add_argument(
        "--chain-order", metavar="ORDER", help=f"{' or '.join(CHAIN_ORDERS)} (default: {_SAMPLER.chain_order})"
    )
    group = parser.add_argument_group(
        "penalties", "Each looks back on its window, in tokens (0: all), prompt, emitted tokens and drafts alike."
    )
    group.add_argument(
        "--logit-bias", action="append", default=[], metavar="ID:VALUE", help="add VALUE to a logit; may be repeated"
    )
    for name, kind, metavar, help_text in (
        ("repetition-penalty", number, "X", "1: off"),
        ("repetition-window", whole, "N", ""),
        ("dry-multiplier", number, "X", "0: off"),
        ("dry-base", number, "X", ""),
        ("dry-allowed-length", whole, "N", ""),
        ("dry-window", whole, "N", ""),
        ("frequency-penalty", number, "X", "0: off"),
        ("frequency-window", whole, "N", ""),
        ("presence-penalty", number, "X", "0: off"),
        ("presence-window", whole, "N", ""),
        ("xtc-probability", number, "P", "0: off"),
        ("xtc-threshold", number, "P", ""),
    ):
        default = f"default: {getattr(_SAMPLER, name.replace('-', '_')):g}"
        shown = f"{help_text} ({default})" if help_text else default
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=shown)
    group.add_argument("--no-penalize-prompt", action="store_true", help="the penalties leave the prompt out")


def _add_speculation(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "-k",
        "--num-draft-tokens",
        type=whole,
        metavar="K",
        help=f"tokens drafted in a round, 0: plain decoding (default: {_SETTINGS.num_draft_tokens})",
    )
    group.add_argument("--prefill-chunk", type=whole, metavar="N", help=f"(default: {_SETTINGS.prefill_chunk})")
    group.add_argument("--rewind", metavar="NAME", help=f"{', '.join(REWINDS)} (default: {_SETTINGS.rewind})")
    return group


def _add_length(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument(
        "-n",
        "--max-tokens",
        type=whole,
        metavar="N",
        help=f"tokens to emit at most, -1: until an end-of-sequence token or the context's end (default: {default})",
    )


def run_parser() -> argparse.ArgumentParser:
    """The options of `draftscope run`."""
    parser = _command(
        "run",
        "Stream a text by speculative decoding, and end with the summary line.",
        "Environment: MLXCEL_SPECULATIVE_STOCHASTIC_ACCEPT=1 starts with --stochastic, 0 with --kill-switch;\n"
        "MLXCEL_SPECULATIVE_ACCEPT_DIAG=1 with --diagnostics. The options override it.\n"
        "Exit code: 0 for a run that ended by itself, 1 for one that failed, 2 for bad input, 3 where its recording\n"
        "stopped before its end, 130 after Ctrl+C.",
    )
    parser.add_argument(
        "--rounds",
        nargs="?",
        const="plain",
        choices=("plain", "full"),
        help="with --json: every round; full: with the largest probabilities of each position",
    )
    parser.add_argument(
        "--record", metavar="FILE", help="keep the run in a session file, new or with other runs: see draftscope show"
    )
    parser.add_argument(
        "--full-vocabulary",
        action="store_true",
        help="with --record: keep p and q of all tokens, not of the likeliest alone; the size is said beforehand",
    )
    _add_length(parser, _SETTINGS.max_tokens)
    parser.add_argument(
        "--temp", dest="temperature", type=number, metavar="T", help=f"(default: {_SAMPLER.temperature})"
    )
    parser.add_argument("--seed", type=whole, metavar="N", help="0 to 2^64 - 1 (default: drawn and shown)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before it; may be repeated")
    _add_models(parser)
    _add_prompt(parser)
    _add_chat(parser)
    group = _add_speculation(parser)
    group.add_argument("--stochastic", action=argparse.BooleanOptionalAction, help="opt in to the stochastic rule")
    group.add_argument(
        "--kill-switch", action=argparse.BooleanOptionalAction, help="sampler-match, whatever else is asked"
    )
    group.add_argument("--diagnostics", action=argparse.BooleanOptionalAction, help="compute the closed forms")
    group.add_argument(
        "--main-rewind",
        metavar="NAME",
        help=f"of the main cache, where a fault is not lossless: {', '.join(MAIN_REWINDS)} "
        f"(default: {_SETTINGS.main_rewind})",
    )
    group.add_argument(
        "--kv-bits",
        type=whole,
        metavar="N",
        help=f"keep both models' keys and values in so many bits: {', '.join(map(str, KV_BITS[1:]))} (default: 0, off)",
    )
    group.add_argument(
        "--kv-group-size",
        type=whole,
        metavar="N",
        help=f"of so many values each: {', '.join(map(str, KV_GROUPS))} (default: {_SETTINGS.kv_group_size})",
    )
    group.add_argument(
        "--kv-start",
        type=whole,
        metavar="N",
        help="as soon as a pass would go beyond so many tokens (default: 0, from the start)",
    )
    group.add_argument(
        "--content-check",
        type=whole,
        default=0,
        metavar="N",
        help="every N rounds compare the logits from both caches with those from fresh ones: a pass over all tokens "
        "and syncs of its own (default: 0, never)",
    )
    group.add_argument("--rule", default="auto", metavar="ID", help=f"{', '.join(RULE_CHOICES)} (default: auto)")
    _add_drafter(group)
    for name, kind, metavar in (
        ("temp", number, "T"),
        ("top-k", whole, "N"),
        ("top-p", number, "P"),
        ("min-p", number, "P"),
    ):
        field = "temperature" if name == "temp" else name.replace("-", "_")
        group.add_argument(
            f"--draft-{name}", dest=f"draft_{field}", type=kind, metavar=metavar, help="(default: the target's)"
        )
    _add_sampler(parser)
    return parser


def ab_parser() -> argparse.ArgumentParser:
    """The options of `draftscope ab`."""
    parser = _command(
        "ab",
        "Compare sampler-match, stochastic, greedy drafting and plain decoding on one pair.",
        "Every run is made twice with one seed: with the closed forms for the counts, without a record for the speed.",
    )
    parser.add_argument("--temps", default="0,0.7,1.0", metavar="LIST", help="temperatures (default: 0,0.7,1.0)")
    parser.add_argument(
        "--seeds", default="5", metavar="N", help="how many seeds (1 to N), or a list such as 7,8,9 (default: 5)"
    )
    _add_length(parser, _SETTINGS.max_tokens)
    _add_models(parser)
    _add_network(parser)
    _add_prompt(parser)
    _add_speculation(parser)
    _add_sampler(parser)
    return parser


def _add_network(parser: argparse.ArgumentParser) -> None:
    """For a command that chooses its own picks."""
    parser.add_argument(
        "--drafter",
        default="sample",
        metavar="KIND[:ARGUMENT]",
        help="the network that drafts: the draft model, or dropped:FIRST-LAST, requantized[:BITS[:GROUP[:MODULES]]] or "
        "self, made of the target",
    )


def _add_drafter(group: Any) -> None:
    group.add_argument(
        "--drafter",
        default="sample",
        metavar="KIND[:ARGUMENT][,PICK]",
        help="what drafts: sample, greedy or no-q (the draft model, by its pick), prompt-lookup[:N][,one-hot], "
        "dropped:FIRST-LAST, requantized[:BITS[:GROUP[:MODULES]]] or self, made of the target (default: sample)",
    )


def bench_parser() -> argparse.ArgumentParser:
    """The options of `draftscope bench`."""
    parser = _command(
        "bench",
        "Compare this engine's speed with mlx-lm's on the same networks, interleaved in one process.",
        "Ratios above 1 mean that the first is faster; low and high are the 10th and 90th percentile of the\n"
        "paired ratios, one a prompt and repeat. End-of-sequence tokens don't end a run here.",
    )
    parser.add_argument(
        "--temp",
        dest="temperature",
        type=number,
        default=0.7,
        metavar="T",
        help="of the comparison per round (default: 0.7)",
    )
    parser.add_argument("--seed", type=whole, default=1, metavar="N", help="(default: 1)")
    _add_network(parser)
    parser.add_argument(
        "-n",
        "--max-tokens",
        type=whole,
        default=128,
        metavar="N",
        help="tokens of a run at temperature 0 (default: 128)",
    )
    parser.add_argument(
        "--rounds", type=whole, default=40, metavar="N", help="rounds of a comparison per round (default: 40)"
    )
    parser.add_argument(
        "--repeats", type=whole, default=5, metavar="N", help="of everything, for each prompt (default: 5)"
    )
    parser.add_argument(
        "-k",
        "--num-draft-tokens",
        type=whole,
        default=_SETTINGS.num_draft_tokens,
        metavar="K",
        help=f"(default: {_SETTINGS.num_draft_tokens})",
    )
    parser.add_argument("--prompt", action="append", metavar="TEXT", help="may be repeated (default: three of our own)")
    _add_models(parser)
    return parser


def lab_parser() -> argparse.ArgumentParser:
    """The options of `draftscope lab chi-square` and `draftscope lab faults`."""
    parser = _Parser(
        prog="draftscope lab",
        description="Put an acceptance rule, or the instruments, to the test.",
        allow_abbrev=False,
    )
    labs = parser.add_subparsers(dest="lab", required=True, metavar="LAB", parser_class=_Parser)
    _add_chi_square(
        labs.add_parser(
            "chi-square",
            help="goodness of fit of a rule's tokens",
            description="Pearson's test of what a rule emits on the 6-token toy against the target's own distribution.",
            epilog="Exit code: 0 whatever the verdict, 2 for bad input, 130 after Ctrl+C.",
            allow_abbrev=False,
        )
    )
    _add_faults(
        labs.add_parser(
            "faults",
            help="which instrument sees a fault, and what it costs",
            description="Run with a fault and without it, with the same seed, prompt and settings.",
            epilog="Exit code: 0 whether an instrument tripped or not, 1 for a run that failed, 2 for bad input.",
            allow_abbrev=False,
        )
    )
    return parser


def _add_chi_square(parser: argparse.ArgumentParser) -> None:
    from engine.goodness import ARMS, Experiment

    default = Experiment()
    _add_output(parser)
    parser.add_argument("--rule", default=default.rule, metavar="ID", help=f"{', '.join(ARMS)} (default: stochastic)")
    parser.add_argument(
        "--samples",
        type=whole,
        default=default.samples,
        metavar="N",
        help=f"emitted tokens, for rules that are not lossless tested positions (default: {default.samples})",
    )
    parser.add_argument("--seed", type=whole, default=default.seed, metavar="N", help=f"(default: {default.seed})")
    parser.add_argument("-k", "--num-draft-tokens", type=whole, default=default.k, metavar="K", help=f"({default.k})")
    parser.add_argument(
        "--temp", dest="temperature", type=number, default=default.temperature, metavar="T", help="of both models (0.7)"
    )
    parser.add_argument("--target-logits", metavar="LIST", help="such as 2,1,0.5,0,-0.5,-1")
    parser.add_argument("--draft-logits", metavar="LIST", help="as many")
    parser.add_argument(
        "--target-top-k",
        type=whole,
        default=0,
        metavar="N",
        help="filter the target alone: the drafter proposes what it can't emit (default: 0, off)",
    )


def _add_faults(parser: argparse.ArgumentParser) -> None:
    from engine.faults import FAULT_TABLE

    _add_output(parser)
    parser.add_argument("--fault", required=True, metavar="ID", help=", ".join(FAULT_TABLE))
    parser.add_argument("--seed", type=whole, default=1, metavar="N", help="(default: 1)")
    parser.add_argument(
        "-n",
        "--max-tokens",
        type=whole,
        default=1000,
        metavar="N",
        help="tokens to emit, in further runs where a context or a text ends (default: 1000)",
    )
    parser.add_argument("--temp", dest="temperature", type=number, default=1.0, metavar="T", help="(default: 1)")
    parser.add_argument("--draft-top-k", type=whole, metavar="N", help="the drafter's own (raw-q shows with 2)")
    parser.add_argument("-k", "--num-draft-tokens", type=whole, metavar="K", help=f"({_SETTINGS.num_draft_tokens})")
    _add_models(parser)
    _add_network(parser)
    _add_prompt(parser)


_READING = "Exit code: 0, 2 for bad input or a file that can't be read whole, 130 after Ctrl+C."


def show_parser() -> argparse.ArgumentParser:
    """The options of `draftscope show`."""
    parser = _command("show", "Print what a recorded session holds.", _READING, with_json=False)
    parser.add_argument("file", metavar="FILE", help="a session file, such as run --record writes")
    parser.add_argument("--run", type=whole, metavar="N", help="sum one run up (default: a list of all)")
    parser.add_argument("--round", type=whole, metavar="N", help="one round in detail, from 0")
    return parser


def export_parser() -> argparse.ArgumentParser:
    """The options of `draftscope export`."""
    from engine.export import FORMATS

    parser = _command("export", "Write a recorded session for other programs.", _READING, with_json=False)
    parser.add_argument("file", metavar="FILE", help="a session file, such as run --record writes")
    parser.add_argument(
        "--format",
        required=True,
        choices=(*FORMATS, "png", "svg"),
        help="html: one round, with --round; png, svg: a chart of one run",
    )
    parser.add_argument("--run", type=whole, metavar="N", help="one run (default: all)")
    parser.add_argument("--round", type=whole, metavar="N", help="one round, from 0 (default: all)")
    parser.add_argument("--full", action="store_true", help="with jsonl: the largest probabilities of each position")
    charts = ("acceptance", "positions", "kv", "timeline")
    parser.add_argument("--chart", choices=charts, help="with png, svg: which one (default: acceptance)")
    parser.add_argument("--theme", choices=("light", "dark"), help="with png, svg: its colours (default: light)")
    parser.add_argument("--output", metavar="FILE", help="where to (default: standard output)")
    return parser


def compare_parser() -> argparse.ArgumentParser:
    """The options of `draftscope compare`."""
    parser = _command("compare", "Lay two recorded runs, A and B, side by side.", _READING)
    parser.add_argument("file", metavar="A", help="a session file, such as run --record writes")
    parser.add_argument("second", metavar="B", nargs="?", help="another (default: both runs are in A)")
    parser.add_argument("--run", type=whole, metavar="N", help="run A (default: the only one, or the first of two)")
    parser.add_argument("--other", type=whole, metavar="M", help="run B (default: the only one, or the second of two)")
    return parser


def models_parser() -> argparse.ArgumentParser:
    """The options of `draftscope models`."""
    parser = _command(
        "models",
        "List the models on this machine: the bundled pair and the Hugging Face cache; or describe one, unloaded.",
        "Exit code: 0, 2 for a model that can't be read. Uses no network.",
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a folder, a .gguf file, or an id in that cache")
    return parser


PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "run": run_parser,
    "ab": ab_parser,
    "bench": bench_parser,
    "lab": lab_parser,
    "show": show_parser,
    "export": export_parser,
    "compare": compare_parser,
    "models": models_parser,
}


@contextmanager
def _log_to_stderr(level: str) -> Iterator[None]:
    """Show the program's own log lines for the length of the command."""
    log = logging.getLogger("draftscope")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(level.upper())
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def main(arguments: list[str]) -> int:
    """Run the command that `arguments` begin with; returns the exit code."""
    name, *rest = arguments
    options = PARSERS[name]().parse_args(rest)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode gets escapes
    with _log_to_stderr(options.log_level):
        try:
            command = importlib.import_module(f"app.headless.{name}")
            return int(getattr(command, name)(options))
        except (UserError, SettingsError) as error:
            say(f"draftscope {name}: {error}")
            return 2
        except RunError as error:
            say(f"draftscope {name}: {error}")
            return 1
        except KeyboardInterrupt:
            say(f"draftscope {name}: cancelled")
            return 130
        except BrokenPipeError:
            _close_output()
            return 1
        except OSError as error:
            if error.filename is not None or error.errno not in _OUTPUT_IS_FULL:
                raise
            _close_output()
            say(f"draftscope {name}: standard output can't be written to: {error.strerror}")
            return 1


_OUTPUT_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _close_output() -> None:
    """Nobody reads what is still to be written; the interpreter's own flush at exit must not complain, too."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
