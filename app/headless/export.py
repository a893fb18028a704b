"""`draftscope export`: recorded runs as JSON lines, CSV, a summary, a round's web page, or a chart as a picture."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.headless.recordings import DAMAGED, check_round, chosen_run, loaded, opened, runs_of
from app.headless.request import UserError
from app.headless.terminal import harmless
from engine import export as engine_export
from engine.recording import RecordedRun
from engine.round_page import round_page
from engine.session_file import StoredRun
from engine.session_reader import SessionReader


def export(options: argparse.Namespace) -> int:
    """Write what was asked for; returns the exit code. Raises UserError."""
    if options.format == "html" and options.round is None:
        raise UserError("--format html is a page of one round: give its number with --round")
    if options.format == "json" and options.round is not None:
        raise UserError("--format json sums whole runs up: leave --round out, or choose another format")
    if options.full and options.format != "jsonl":
        raise UserError("--full goes with --format jsonl: the other formats have no place for it")
    if options.format not in PICTURES and (options.chart or options.theme):
        raise UserError("--chart and --theme go with --format png or svg")
    damaged: list[int] = []
    with opened(options.file) as reader:
        if options.format in PICTURES:
            _draw(reader, options, damaged)
            return DAMAGED if damaged else 0
        _write(_pieces(reader, options, damaged), options.output, reader.path)
    return DAMAGED if damaged else 0


PICTURES = ("png", "svg")


def _draw(reader: SessionReader, options: argparse.Namespace, damaged: list[int]) -> None:
    """A chart of one run, to a file or to a pipe. Raises UserError."""
    if options.round is not None:
        raise UserError(f"--format {options.format} is a chart of a whole run: leave --round out")
    if options.output is None and sys.stdout.isatty():
        raise UserError(f"--format {options.format} is a picture: give its file with --output")
    run = next(_each(reader, [chosen_run(reader, options.run)], damaged))[1]
    try:
        from app.headless.chart import chart
    except ImportError as error:
        raise UserError(f"--format {options.format} needs Qt, which can't be loaded ({error})") from error
    drawn = chart(run, options.chart or "acceptance", options.format, options.theme or "light")
    if options.output is None:
        sys.stdout.buffer.write(drawn)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(drawn, Path(options.output).expanduser(), reader.path)
    except WriteError as error:
        raise UserError(f"--output: {error}") from error


def _pieces(reader: SessionReader, options: argparse.Namespace, damaged: list[int]) -> Iterator[str]:
    """The text in pieces; the numbers of damaged runs are added to `damaged`. Raises UserError before the first."""
    if options.run is None and options.round is None:
        return engine_export.export(options.format, _each(reader, runs_of(reader), damaged), None, options.full)
    name = (entry := chosen_run(reader, options.run)).id
    run = next(_each(reader, [entry], damaged))[1]
    if options.round is not None:
        check_round(run, name, options.round)
    if options.format == "html":
        return iter([round_page(run, name, options.round)])
    return engine_export.export(options.format, [(name, run)], options.round, options.full)


def _each(reader: SessionReader, stored: list[StoredRun], damaged: list[int]) -> Iterator[tuple[int, RecordedRun]]:
    for entry in stored:
        run = loaded(reader, entry)
        if run.damage is not None:
            damaged.append(entry.id)
        yield entry.id, run


def _write(pieces: Iterator[str], output: str | None, source: Path) -> None:
    """To standard output, or to a file."""
    if output is None:
        safe = harmless if sys.stdout.isatty() else str
        for piece in pieces:
            sys.stdout.write(safe(piece))
        sys.stdout.flush()
        return
    try:
        write_whole(pieces, Path(output).expanduser(), source)
    except WriteError as error:
        raise UserError(f"--output: {error}") from error


class WriteError(ValueError):
    """A file can't be written; the text says which, and why."""


def write_whole(pieces: Iterable[str] | bytes, path: Path, source: Path | None = None) -> None:
    """A text in pieces, or a picture, to a file, which appears once it is whole; `source`: what it may not replace.

    Raises WriteError, and whatever making the pieces raises: then the file stays as it was.
    """
    if path.is_dir():
        raise WriteError(f"{path} is a folder: expected a file's name")
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise WriteError(f"{path} is the recording itself: choose another file")
    # A device or a pipe is written to as it is.
    whole = path.resolve() if path.is_file() or not path.exists() else None
    part = path if whole is None else whole.with_name(whole.name + ".part")
    try:
        if isinstance(pieces, bytes):
            part.write_bytes(pieces)
        else:
            with part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.writelines(pieces)
        if whole is not None:
            os.replace(part, whole)
    except OSError as error:
        raise WriteError(f"{path} can't be written ({error.strerror})") from error
    finally:
        if whole is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
