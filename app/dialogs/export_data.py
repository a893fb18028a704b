"""What can be exported from the window, under which name, and the job that writes it. No widgets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.headless.export import write_whole
from app.jobs import Report, Steps
from app.run_sources import Opener, StoppedError, checker
from engine.export import export
from engine.recording import RecordedRun
from engine.round_page import round_page
from engine.session_file import SessionFileError

RUN, ROUND, PANEL = "run", "round", "panel"
REPORT_EVERY = 64
"""Pieces between two looks at whether to go on."""


@dataclass(frozen=True)
class Kind:
    """A format. `of`: what it is made of. `id`: its name in `engine.export`, or of the picture."""

    id: str
    of: str
    words: str
    suffix: str
    about: str


KINDS = (
    Kind("jsonl", RUN, "Rounds, JSON lines", "jsonl", "A round a line, strict JSON, for programs."),
    Kind("csv", RUN, "Rounds, CSV", "csv", "A round a row, for spreadsheets."),
    Kind("csv-positions", RUN, "Positions, CSV", "csv", "A drafted position a row, and one for the token behind them."),
    Kind("json", RUN, "Summary, JSON", "json", "One object with the counters, in the shape of AIPerf's record."),
    Kind("html", ROUND, "Web page, HTML", "html", "A page of its own: no script, nothing loaded from anywhere."),
    Kind("jsonl", ROUND, "JSON", "jsonl", "The round's whole record as one line of JSON."),
    Kind("csv-positions", ROUND, "Positions, CSV", "csv", "A row for each of its positions."),
    Kind("png", PANEL, "Picture, PNG", "png", "As it is seen, at twice the size."),
    Kind("svg", PANEL, "Drawing, SVG", "svg", "As it is seen, in lines and text that stay sharp at any size."),
)


def kinds_of(what: str) -> list[Kind]:
    """The formats of a RUN, a ROUND or a PANEL."""
    return [kind for kind in KINDS if kind.of == what]


def file_name(kind: Kind, run: str, number: int | None = None, panel: str = "") -> str:
    """A name to begin with: letters, digits and dashes only, so that any file system takes it."""
    parts = [run]
    if number is not None:
        parts.append(f"round {number}")
    if panel:
        parts.append(panel)
    if kind.id == "csv-positions":
        parts.append("positions")
    if kind.id == "json":
        parts.append("summary")
    words = re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")
    return f"{words or 'export'}.{kind.suffix}"


def text_steps(kind: str, opened: Opener, name: int, number: int | None, full: bool, path: Path) -> Steps:
    """A job that writes a run, or its round `number` alone, as a kind of `engine.export`; gives the path.

    `name`: the run's number in its file. `full`: with the largest probabilities, in JSON lines.
    """

    def steps(job: Any, report: Report) -> Iterator[Path]:
        try:
            with opened(checker(job)) as run:
                pieces = _text(kind, run, name, number, full)
                write_whole(_watched(pieces, checker(job), report, len(run) if number is None else 1), path)
        except SessionFileError as error:
            raise ValueError(str(error)) from error
        except IndexError as error:
            raise ValueError(f"the run has no round {number}") from error
        except StoppedError:
            return
        yield path

    return steps


def _text(kind: str, run: RecordedRun, name: int, number: int | None, full: bool) -> Iterator[str]:
    if kind == "html":
        assert number is not None
        return iter([round_page(run, name, number)])
    return export(kind, [(name, run)], number, full)


def _watched(pieces: Iterator[str], check: Callable[[], None], report: Report, total: int) -> Iterator[str]:
    for done, piece in enumerate(pieces):
        if done % REPORT_EVERY == 0:
            check()
            report(min(done, total), total)
        yield piece
    report(total, total)


def picture_steps(data: bytes, path: Path) -> Steps:
    """A job that writes a picture; gives the path."""

    def steps(job: Any, report: Report) -> Iterator[Path]:
        write_whole(data, path)
        yield path

    return steps
