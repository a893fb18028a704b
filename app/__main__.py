"""The command `draftscope`: opens the window, or hands over to the commands that need none (HEADLESS)."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
from pathlib import Path

HEADLESS = ("run", "ab", "bench", "lab", "show", "export", "compare", "models")

_DESCRIPTION = "See what a drafter proposed, what the target kept, and why."
_EPILOG = """\
without a window (each has its own --help):
  draftscope run      stream a text, end with the summary line, or print JSON
  draftscope ab       compare the acceptance rules over temperatures and seeds
  draftscope bench    compare this engine's speed with mlx-lm's
  draftscope lab      put a rule to a chi-square test, or a fault to the instruments
  draftscope show     print what a recorded session holds
  draftscope export   write it as JSON lines, CSV, a summary, a web page or a chart
  draftscope compare  lay two recorded runs side by side
  draftscope models   list the models on this machine, or describe one

examples:
  draftscope                                 the start page
  draftscope --run                           the bundled pair, one round a second
  draftscope --run --grab picture.png --after 26
"""


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and 200 <= int(width) <= 8192 and 200 <= int(height) <= 8192):
        raise argparse.ArgumentTypeError(f"expected WIDTHxHEIGHT from 200 to 8192, such as 1440x900, got {text!r}")
    return int(width), int(height)


def _after(text: str) -> int | None:
    if text == "finished":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'expected a number of rounds from 1, or "finished", got {text!r}')
    return int(text)


def _selection(text: str) -> tuple[int, int] | str:
    if text == "rejection":
        return text
    index, _, position = text.partition(":")
    if not index.isdecimal() or not (position or "1").isdecimal() or int(position or 1) < 1:
        raise argparse.ArgumentTypeError(f'expected ROUND:POSITION, such as 7:2, or "rejection", got {text!r}')
    return int(index), int(position or 0) - 1


def _pace(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 60, got {text!r}")
    return seconds


def _whole(text: str) -> int:
    """Also numbers like 0x10; the range is the engine's to check."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def version() -> str:
    """The installed version."""
    try:
        return importlib.metadata.version("draftscope")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def parser() -> argparse.ArgumentParser:
    """The options of the window."""
    from app.cli import Parser

    made = Parser(
        prog="draftscope",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"draftscope {version()}")
    made.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))
    _add_run_options(made.add_argument_group("the run"))
    _add_window_options(made.add_argument_group("the window and its picture"))
    return made


def _add_run_options(group: argparse._ArgumentGroup) -> None:
    from engine.settings import REWINDS

    group.add_argument(
        "--run",
        action="store_true",
        help="load the pair and run at once, at teaching pace (one round a second), with the stochastic rule and "
        "diagnostics on, so that every panel has something to show",
    )
    group.add_argument("--prompt", metavar="TEXT", help="the text to go on from")
    group.add_argument("--toy", action="store_true", help="the 6-token toy in place of the bundled pair")
    group.add_argument(
        "--target",
        metavar="MODEL",
        help="target: a folder, a .gguf file, or an id in the Hugging Face cache (default: the bundled pair)",
    )
    group.add_argument("--draft", metavar="MODEL", help="draft model of the same vocabulary")
    group.add_argument(
        "--drafter",
        metavar="KIND[:ARGUMENT]",
        help="what drafts in the place of a draft model, such as requantized:4, dropped:12-17 or prompt-lookup",
    )
    group.add_argument("--unpack", action="store_true", help="take GGUF types that can't be held packed")
    group.add_argument("--allow-large", action="store_true", help="try models that would not fit into the free memory")
    group.add_argument("--chat", action="store_true", default=None, help="the prompt in the target's chat template")
    group.add_argument("--system", metavar="TEXT", help="what the system says there; goes with --chat")
    group.add_argument("--seed", type=_whole, metavar="N", help="0 to 2^64 - 1 (default: drawn and shown)")
    group.add_argument("-k", "--num-draft-tokens", type=int, metavar="K", help="tokens drafted in a round")
    group.add_argument("-n", "--max-tokens", type=int, metavar="N", help="tokens to emit at most, -1: no limit")
    group.add_argument("--temp", type=float, metavar="T", help="temperature")
    group.add_argument("--top-k", type=int, metavar="N")
    group.add_argument("--top-p", type=float, metavar="P")
    group.add_argument("--min-p", type=float, metavar="P")
    group.add_argument("--rewind", help=f"{', '.join(REWINDS)} (default: correct)")
    group.add_argument("--stochastic", action=argparse.BooleanOptionalAction)
    group.add_argument("--kill-switch", action="store_true", default=None)
    group.add_argument("--diagnostics", action=argparse.BooleanOptionalAction)
    group.add_argument(
        "--pace", type=_pace, metavar="SECONDS", help="from round to round, 0: full speed (default: 1; with --grab 0)"
    )


def _add_window_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--open", type=Path, metavar="FILE", help="show a recorded session; needs no models")
    group.add_argument("--record", type=Path, metavar="FILE", help="record into this file (default: an autosave)")
    group.add_argument("--theme", choices=("system", "light", "dark"), help="default: as chosen last")
    group.add_argument("--workspace", choices=("inspect", "debug"), help="default: as chosen last")
    group.add_argument("--size", type=_size, metavar="WxH", help="of the window (with --grab: 1440x900)")
    group.add_argument("--grab", metavar="FILE.png", help="save the window's picture, then end; 0 if that went well")
    group.add_argument(
        "--after",
        type=_after,
        default=12,
        metavar="N",
        help='with --run --grab: pause after N rounds (default 12) or wait until the run is "finished"',
    )
    group.add_argument(
        "--until-rejection", action="store_true", help="with --grab: go on from there to the next rejected draft"
    )
    group.add_argument("--while-running", action="store_true", help="with --grab: don't pause for the picture")
    group.add_argument(
        "--select", type=_selection, metavar="ROUND:POSITION", help='put the cursor there, or on the last "rejection"'
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in HEADLESS:
        from app.cli import main as headless

        return headless(given)
    options = parser().parse_args(given)
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    from app.window_command import open_window

    return open_window(options)


if __name__ == "__main__":
    sys.exit(main())
