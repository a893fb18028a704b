"""Recording without a window, and the commands that read recordings: show, export, compare."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import app.headless.run
import engine.session_file
import engine.session_writer
from engine.recording import RecordedRun, stored_run
from engine.session_file import SCHEMA, SessionFileError
from engine.session_reader import SessionReader
from tests.e2e.headless import ROOT, child, command, environment, start

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("fresh_switches")

TOY = ("run", "--toy", "--seed", "1", "-n", "60", "--diagnostics")


def record(capsys: Capture, path: Path, *options: str) -> str:
    """Record a run of the toy; returns what it said on standard error."""
    done = command(capsys, *TOY, "--record", str(path), *options)
    assert done.code == 0, done.err
    return done.err


Stored = Callable[[Path], list[RecordedRun]]


@pytest.fixture
def stored() -> Iterator[Stored]:
    """Reads the runs of a file, whose rounds can be read until the test ends."""
    readers = []

    def read(path: Path) -> list[RecordedRun]:
        readers.append(reader := SessionReader(path))
        return [stored_run(reader, entry) for entry in reader.runs()]

    yield read
    for reader in readers:
        reader.close()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run 1: stochastic. Run 2: sampler-match, the same seed."""
    path = tmp_path_factory.mktemp("recorded") / "two.draftscope"
    for options in (("--stochastic",), ()):
        assert child(*TOY, "--record", str(path), *options).code == 0
    return path


# Recording


@pytest.mark.parametrize("options", [(), ("--json",), ("--json", "--rounds")])
def test_a_run_is_recorded_whole_streamed_or_as_json(
    stored: Stored, capsys: Capture, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "a.draftscope"
    said = record(capsys, path, "--stochastic", "--content-check", "7", *options)
    plain = command(capsys, *TOY, "--stochastic", "--json", "--rounds").object
    (run,) = stored(path)
    assert run.damage is None
    assert run.tokens == plain["tokens"]
    assert len(run) == plain["statistics"]["rounds"]
    assert [d.u for r in run for d in r.drafts] == [d["u"] for r in plain["rounds"] for d in r["drafted"]]
    assert len(run.content_checks) == len(run) // 7
    assert run.end is not None
    assert (run.end.finish_reason, run.end.text) == ("length", plain["text"])
    assert f"recorded in {path}: {len(run)} rounds" in said


def test_recording_changes_nothing_of_the_output(stored: Stored, capsys: Capture, tmp_path: Path) -> None:
    options = (*TOY[:-1], "--stochastic")  # without diagnostics
    assert command(capsys, *options).out == command(capsys, *options, "--record", str(tmp_path / "a.draftscope")).out
    one, other = (
        command(capsys, *options, "--json", "--rounds", *more).object
        for more in ((), ("--record", str(tmp_path / "b.draftscope")))
    )
    runs = [*stored(tmp_path / "a.draftscope"), *stored(tmp_path / "b.draftscope")]
    assert all(len(record.distributions) == record.k + 1 for run in runs for record in run), "p and q are kept"
    for found in (one, other):
        found.pop("timings")
        for each in found["rounds"]:
            each.pop("timings")
    assert one == other


def test_several_runs_in_one_file_append(stored: Stored, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    for seed in ("1", "2", "3"):
        record(capsys, path, "--seed", seed)
    assert [run.header.seed for run in stored(path)] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["text", "database", "newer", "folder", "nowhere", "damaged"])
def test_a_file_that_is_no_session_is_refused_before_models_are_loaded(
    capsys: Capture, tmp_path: Path, session: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.headless.run, "load", lambda options: pytest.fail("the models were loaded"))
    path, before = spoilt(kind, tmp_path, session)
    done = command(capsys, *TOY, "--record", str(path))
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("draftscope run: --record: ")
    assert str(path) in line
    assert (path.read_bytes() if path.is_file() else None) == before, "it was changed"


def spoilt(kind: str, folder: Path, session: Path) -> tuple[Path, bytes | None]:
    """(a file that can't be read, what it holds)."""
    path = folder / f"{kind}.draftscope"
    if kind == "text":
        path.write_text("Dear diary, ...\n" * 100)
    elif kind == "database":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE letters (a)")
        connection.close()
    elif kind == "folder":
        path.mkdir()
    elif kind == "nowhere":
        path = folder / "missing" / "a.draftscope"
    else:
        shutil.copy(session, path)
        with sqlite3.connect(path) as connection:
            statement = f"PRAGMA user_version = {SCHEMA + 1}" if kind == "newer" else "DROP TABLE rounds"
            connection.execute(statement)
        connection.close()
    return path, path.read_bytes() if path.is_file() else None


def test_nothing_is_left_behind_where_nothing_ran(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    done = command(capsys, "run", "--target", str(tmp_path / "no-model"), "--record", str(path))
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []
    record(capsys, path)
    before = path.read_bytes()
    assert command(capsys, "run", "--target", str(tmp_path / "no-model"), "--record", str(path)).code == 2
    assert path.read_bytes() == before


def test_a_recording_that_fails_is_said_and_the_run_goes_on(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, jobs = tmp_path / "a.draftscope", []

    def vanish(where: Path, before: os.stat_result) -> os.stat_result:
        jobs.append(where)
        if len(jobs) > 1:
            raise SessionFileError(f"{where} was removed")
        return before

    monkeypatch.setattr(engine.session_writer, "same_file", vanish)
    done = command(capsys, *TOY, "--record", str(path))
    assert done.code == 3
    assert done.err.count("Recording stopped") == 1
    assert f"{path} was removed" in done.err
    assert "recorded in" not in done.err
    assert done.out == command(capsys, *TOY).out


def test_the_full_vocabulary_is_kept_and_its_size_said_beforehand(
    stored: Stored, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "a.draftscope"
    said = record(capsys, path, "--full-vocabulary", "--stochastic").splitlines()
    assert re.fullmatch(r"full vocabulary, 6 tokens: About \S+ bytes a round, .* for 60 tokens\.", said[0])
    (run,) = stored(path)
    assert run.header.settings.full_vocabulary
    assert all(len(seen.ids) == 6 for round_ in run for seen in round_.distributions)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [("run", "--toy", "-n", "9"), ("run", "--toy", "-n", "9", "--json"), ("show",)])
def test_a_full_standard_output_is_told_in_one_line(session: Path, arguments: tuple[str, ...]) -> None:
    more = [str(session)] if arguments == ("show",) else []
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments, *more],
            env=environment(),
            cwd=ROOT,
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    last = f"draftscope {arguments[0]}: standard output can't be written to: No space left on device"
    assert done.stderr.splitlines()[-1] == last
    assert "Traceback" not in done.stderr


def test_a_reader_of_the_text_that_goes_away_leaves_a_whole_recording(stored: Stored, tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    process = start("run", "--toy", "--seed", "1", "-n", "100000", "--record", str(path))
    assert process.stdout is not None
    process.stdout.read(200)
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 1
    assert "Traceback" not in said
    (run,) = stored(path)
    assert run.end is not None
    assert run.end.finish_reason == "cancelled"
    assert "stopped within the run" in run.end.notice
    assert len(run) > 10
    assert run.end.text == run.header.vocabulary.decode(run.tokens)


# Reading


READING = [
    ("show", "{}"),
    ("show", "{}", "--run", "1", "--round", "0"),
    ("export", "{}", "--format", "jsonl"),
    ("export", "{}", "--format", "json"),
    ("compare", "{}"),
]


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: " ".join(arguments[:1] + arguments[2:]))
@pytest.mark.parametrize("kind", ["text", "database", "newer", "folder", "nowhere", "damaged"])
def test_what_is_no_session_is_refused_in_words(
    capsys: Capture, tmp_path: Path, session: Path, kind: str, arguments: tuple[str, ...]
) -> None:
    path, _ = spoilt(kind, tmp_path, session)
    done = command(capsys, *(argument.format(path) for argument in arguments))
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith(f"draftscope {arguments[0]}: ")
    assert str(path) in line
    assert {"newer": "newer Draftscope", "damaged": "damaged", "database": "no Draftscope session"}.get(
        kind, ""
    ) in line


def test_a_damaged_run_is_said_and_the_others_are_shown(capsys: Capture, tmp_path: Path, session: Path) -> None:
    path = tmp_path / "a.draftscope"
    shutil.copy(session, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE strips SET columns = x'00' WHERE id < ?", (2 * engine.session_file.ROUNDS,))
    connection.close()
    done = command(capsys, "show", str(path))
    assert done.code == 2
    assert "damaged" in done.out
    assert "length" in done.out
    assert f"run 1 of {path}: The columns from round 0 on are damaged" in done.err
    assert command(capsys, "show", str(path), "--run", "1").code == 2
    assert command(capsys, "show", str(path), "--run", "2").code == 0
    done = command(capsys, "export", str(path), "--format", "jsonl")
    assert done.code == 2
    assert done.out == command(capsys, "export", str(session), "--format", "jsonl").out  # the rounds are whole
    assert command(capsys, "compare", str(path), "--json").code == 2


def test_a_damaged_round_is_said(capsys: Capture, tmp_path: Path, session: Path) -> None:
    path = tmp_path / "a.draftscope"
    shutil.copy(session, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE rounds SET record = '[1,2]' WHERE id = ?", (engine.session_file.ROUNDS + 3,))
    connection.close()
    assert command(capsys, "show", str(path), "--run", "1", "--round", "2").code == 0
    for arguments in (("show",), ("export", "--format", "jsonl"), ("export", "--format", "html")):
        done = command(capsys, arguments[0], str(path), "--run", "1", "--round", "3", *arguments[1:])
        assert done.code == 2
        assert "damaged" in done.err
    whole = tmp_path / "out.jsonl"
    whole.write_text("before")
    done = command(capsys, "export", str(path), "--format", "jsonl", "--output", str(whole))
    assert done.code == 2
    assert whole.read_text() == "before", "a half export took the place of a whole one"
    assert sorted(p.suffix for p in tmp_path.iterdir() if "part" in p.name) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "{}", "--run", "3"), "has no run 3; it holds 1, 2"),
        (("show", "{}", "--run", "0"), "has no run 0"),
        (("show", "{}", "--round", "0"), "holds runs 1, 2: choose one with --run"),
        (("show", "{}", "--run", "1", "--round", "999"), "run 1 has"),
        (("show", "{}", "--run", "1", "--round", "-1"), "numbered from 0 to"),
        (("show", "{}", "--run", "x"), "expected a whole number"),
        (("export", "{}", "--format", "csv", "--run", "9"), "has no run 9"),
        (("export", "{}", "--format", "csv", "--round", "1"), "choose one with --run"),
        (("export", "{}", "--format", "csv", "--run", "1", "--round", "999"), "run 1 has"),
        (("export", "{}", "--format", "html", "--run", "1"), "give its number with --round"),
        (("export", "{}", "--format", "json", "--run", "1", "--round", "1"), "leave --round out"),
        (("export", "{}", "--format", "csv", "--full"), "--full goes with --format jsonl"),
        (("export", "{}", "--format", "xml"), "invalid choice"),
        (("export", "{}", "--format", "svg"), "choose one with --run"),
        (("export", "{}", "--format", "png", "--run", "1", "--round", "1"), "leave --round out"),
        (("export", "{}", "--format", "csv", "--chart", "kv"), "--chart and --theme go with --format png or svg"),
        (("export", "{}", "--format", "png", "--run", "1", "--chart", "pie"), "invalid choice"),
        (("export", "{}"), "--format"),
        (("export", "{}", "--format", "csv", "--output", "{}"), "is the recording itself"),
        (("export", "{}", "--format", "csv", "--output", "/nowhere/a.csv"), "can't be written"),
        (("compare", "{}", "--run", "1", "--other", "1"), "are the same run"),
        (("compare", "{}", "--run", "1", "--other", "7"), "--other: "),
        (("compare", "{}", "{}", "--run", "1"), "choose one with --other"),
    ],
    ids=lambda value: " ".join(value).replace("{}", "FILE") if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_clear_line(capsys: Capture, session: Path, arguments: tuple[str, ...], words: str) -> None:
    before = session.read_bytes()
    done = command(capsys, *(argument.format(session) for argument in arguments))
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert words in line
    assert session.read_bytes() == before


def test_show_lists_the_runs(stored: Stored, capsys: Capture, session: Path) -> None:
    done = command(capsys, "show", str(session))
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == f"{session}: 2 runs"
    runs = stored(session)
    for line, run, rule in zip(lines[4:], runs, ("stochastic", "sampler-match"), strict=True):
        assert f"  {rule}  " in line
        assert f"{len(run)}      {len(run.tokens)}" in line
        assert f"{run.statistics.per_position_acceptance:.4f}" in line


def test_show_sums_a_run_up(stored: Stored, capsys: Capture, session: Path) -> None:
    run = stored(session)[0]
    out = command(capsys, "show", str(session), "--run", "1").out
    assert run.end is not None
    for expected in (run.end.summary, run.end.text.strip(), "seed 1", "all hold in every round", "0 in every round"):
        assert expected in out
    assert f"n {run.statistics.positions_tested}" in out


def test_show_tells_a_round(stored: Stored, capsys: Capture, session: Path) -> None:
    run = stored(session)[0]
    number = next(record.index for record in run if record.rejected_at == 1)
    out = command(capsys, "show", str(session), "--run", "1", "--round", str(number)).out
    for draft in run[number].drafts[:2]:
        assert draft.u is not None
        assert f"{draft.u:.4f}" in out
        assert ("<=" if draft.fate == "accepted" else ">") in out
    assert [out.count(fate) for fate in ("rejected", "ignored", "recovered")] == [1, run[number].k - 2, 1]
    assert "debt 0, drift 0" in out
    assert "main" in out


def test_exports_hold_the_run(stored: Stored, capsys: Capture, tmp_path: Path, session: Path) -> None:
    first, second = stored(session)
    lines = command(capsys, "export", str(session), "--format", "jsonl").out.splitlines()
    assert len(lines) == len(first) + len(second)
    rounds = list(csv.DictReader(io.StringIO(command(capsys, "export", str(session), "--format", "csv").out)))
    assert [row["run"] for row in rounds] == ["1"] * len(first) + ["2"] * len(second)
    assert [int(t) for row in rounds[: len(first)] for t in row["tokens"].split()] == first.tokens
    out = tmp_path / "positions.csv"
    done = command(capsys, "export", str(session), "--format", "csv-positions", "--run", "2", "--output", str(out))
    assert (done.code, done.out) == (0, "")
    positions = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert sum(row["fate"] == "accepted" for row in positions) == second.statistics.accepted
    found = command(capsys, "export", str(session), "--format", "json").object["runs"]
    assert [run["num_accepted_draft_tokens"] for run in found] == [run.statistics.accepted for run in (first, second)]
    page = command(capsys, "export", str(session), "--format", "html", "--run", "1", "--round", "3").out
    assert page.startswith("<!DOCTYPE html>")
    assert "Round 3 of run 1" in page
    full = command(capsys, "export", str(session), "--format", "jsonl", "--run", "1", "--round", "0", "--full").object
    assert len(full["distributions"]) == full["k"] + 1


def test_compare_finds_the_coin(stored: Stored, capsys: Capture, session: Path) -> None:
    a, b = stored(session)
    found = command(capsys, "compare", str(session), "--json").object
    index = next(at for at, (x, y) in enumerate(zip(a.tokens, b.tokens, strict=False)) if x != y)
    first = found["first_difference"]
    assert (first["token_index"], first["differing"]) == (index, ["rule"])
    number, within = a.locate(index)
    assert (first["a"]["round"], first["a"]["rule"]) == (number, "stochastic")
    draft = a[number].drafts[a[number].emitted[within].position]
    assert first["a"]["drafted"]["u"] == draft.u
    done = command(capsys, "compare", str(session))
    assert done.code == 0
    assert "Equal seeds don't give equal tokens across rules" in done.out
    assert found["verdict"] in done.out
    assert "per_position_acceptance" in done.out
    swapped = command(capsys, "compare", str(session), "--run", "2", "--other", "1", "--json").object
    assert swapped["first_difference"]["b"] == first["a"]


def test_compare_takes_two_files(capsys: Capture, tmp_path: Path, session: Path) -> None:
    path = tmp_path / "other.draftscope"
    record(capsys, path)
    found = command(capsys, "compare", str(session), str(path), "--run", "2", "--json").object
    assert found["first_difference"] is None
    assert found["tokens"] == {"a": 60, "b": 60, "same_from_the_start": 60}
    done = command(capsys, "compare", str(path))
    assert done.code == 2
    assert "holds one run" in done.err


# The process


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "{}"),
        ("show", "{}", "--run", "1"),
        ("show", "{}", "--run", "1", "--round", "1"),
        *(("export", "{}", "--format", kind) for kind in ("jsonl", "csv", "csv-positions", "json")),
        ("export", "{}", "--format", "html", "--run", "1", "--round", "1"),
        ("compare", "{}"),
        ("compare", "{}", "--json"),
    ],
    ids=lambda arguments: " ".join(arguments).replace("{} ", ""),
)
def test_reading_needs_neither_mlx_nor_qt(session: Path, arguments: tuple[str, ...]) -> None:
    filled = [argument.format(session) for argument in arguments]
    code = (
        "import sys; from app.__main__ import main; code = main(sys.argv[1:]); "
        "heavy = {n.split('.')[0] for n in sys.modules} & {'mlx', 'mlx_lm', 'transformers', 'PySide6', 'scipy'}; "
        "sys.exit(code or (f'imported {heavy}' if heavy else 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *filled], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_chart_needs_no_display(session: Path, tmp_path: Path) -> None:
    away = ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")
    screenless = {name: value for name, value in environment().items() if name not in away}
    drawn = {}
    for kind in ("png", "svg"):
        out = tmp_path / f"chart.{kind}"
        asked = ["export", str(session), "--format", kind, "--run", "1", "--theme", "dark"]
        written = asked if kind == "png" else [*asked, "--chart", "timeline", "--output", str(out)]
        done = subprocess.run(
            [sys.executable, "-m", "app", *written], cwd=ROOT, env=screenless, capture_output=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, b"")
        drawn[kind] = done.stdout if kind == "png" else out.read_bytes()
    assert drawn["png"].startswith(b"\x89PNG\r\n")
    assert b"IEND" in drawn["png"][-12:]
    assert drawn["svg"].startswith(b"<?xml")
    assert b"<title>Draftscope: Timeline</title>" in drawn["svg"]


@pytest.mark.parametrize("arguments", [("show",), ("export", "--format", "jsonl"), ("compare",)])
def test_a_closed_pipe_is_no_traceback(session: Path, arguments: tuple[str, ...]) -> None:
    process = start(arguments[0], str(session), *arguments[1:])
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    for pipe in (process.stderr, process.stdin):
        assert pipe is not None
        pipe.close()
    assert process.wait(60) == 1
    assert said == ""


def test_text_of_a_hostile_file_is_harmless_on_a_terminal(capsys: Capture, tmp_path: Path, session: Path) -> None:
    path = tmp_path / "a.draftscope"
    shutil.copy(session, path)
    with sqlite3.connect(path) as connection:
        for table, column in (("runs", "header"), ("runs", "finished"), ("rounds", "record")):
            replaced = f"replace(replace(replace({column}, 'six-word', ?), 'Stochastic is on', ?), 'rejected', ?)"
            evil = "\\u001b]0;x\\u0007\\u202e"
            connection.execute(f"UPDATE {table} SET {column} = {replaced}", (evil, evil, evil))
    connection.close()
    for arguments in (("show",), ("show", "--run", "1"), ("show", "--run", "1", "--round", "1"), ("compare",)):
        done = command(capsys, arguments[0], str(path), *arguments[1:])
        assert done.code == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
        if arguments != ("compare",):
            assert "x1b" in done.out or "U+001B" in done.out


def test_the_same_commands_again(capsys: Capture, session: Path) -> None:
    for arguments in (("show", str(session)), ("compare", str(session), "--json")):
        outputs: list[Any] = [command(capsys, *arguments).out for _ in range(2)]
        assert outputs[0] == outputs[1]


def test_a_run_whose_header_is_damaged_is_said_and_the_other_is_shown(
    capsys: Capture, tmp_path: Path, session: Path
) -> None:
    path = tmp_path / "a.draftscope"
    shutil.copy(session, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET header = '[]' WHERE id = 1")
    connection.close()
    done = command(capsys, "show", str(path))
    assert done.code == 2
    assert "Run 1 can't be shown" in done.err
    assert "sampler-match" in done.out
    assert command(capsys, "show", str(path), "--run", "2").code == 0
