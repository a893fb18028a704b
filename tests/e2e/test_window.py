"""The window as a child process: every way to close it ends with 0, and its picture can be saved."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS_OF_TROUBLE = ("Traceback", "QThread", "QObject::", "QPainter::", "libc++abi", "terminate called")


SETTINGS = tempfile.TemporaryDirectory(prefix="draftscope-test-")


def environment(**more: str) -> dict[str, str]:
    """A child's environment: no display, and settings of its own."""
    kept = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return {
        **kept,
        "PYTHONPATH": path,
        "PYTHONFAULTHANDLER": "1",
        "XDG_CONFIG_HOME": SETTINGS.name,
        "XDG_DATA_HOME": SETTINGS.name,
        **more,
    }


def child(*arguments: str, timeout: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        command, env=environment(**more), check=False, capture_output=True, text=True, timeout=timeout, cwd=ROOT
    )
    for word in WORDS_OF_TROUBLE:
        assert word not in done.stderr, done.stderr
    return done


def drive(kind: str, steps: str, *options: str) -> subprocess.CompletedProcess[str]:
    done = child("tests.e2e.drive_window", kind, steps, *options, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 0, (done.returncode, done.stderr)
    # The real engine may still be importing MLX, which nothing can interrupt.
    assert kind == "real" or "still busy" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    "steps",
    [
        "close",
        "load,close",
        "load,sleep=50,close",
        "load,stop,close",
        "run,sleep=50,close",  # the load that comes before the run
        "toy,state=ready,run,close",
        "toy,state=ready,run,sleep=30,close",  # reading the prompt
        "toy,state=ready,run,sleep=30,stop,close",
        "toy,state=ready,run,rounds=1,close",
        "toy,state=ready,run,rounds=20,stop,close",
        "toy,state=ready,run,rounds=5,stop,run,close",
        "toy,state=ready,step,state=paused,close",
        "toy,state=ready,step,state=paused,step,close",
        "toy,state=ready,step,state=paused,pause,close",
        "toy,state=ready,run,rounds=3,pause,close",
        "toy,state=ready,run,rounds=3,stop,state=ready,load,close",
        "run-toy,rounds=3,quit",
    ],
)
def test_closing_in_every_state_ends_with_0(steps: str) -> None:
    drive("fake", steps)


@pytest.mark.parametrize("pace", ["0", "30"])
@pytest.mark.parametrize("seed", [1, 2])
def test_fast_clicks_then_close(seed: int, pace: str) -> None:
    drive("fake", f"random={seed},close", "--pace", pace)


@pytest.mark.parametrize(
    "steps",
    [
        "load,sleep=100,close",  # MLX is being imported
        "run-toy,rounds=30,close",
        "slow,run-toy,rounds=3,pause,state=paused,step,step,stop,state=ready,run,rounds=2,close",
        "run-toy,rounds=3,random=7,close",
        "run,rounds=3,stop,run,rounds=1,close",
        "slow,run,rounds=2,pause,state=paused,toy,load,step,close",
    ],
)
def test_the_real_engine_closes_too(steps: str) -> None:
    """R125, R133: all of MLX lives and dies on its thread, whatever the window does."""
    drive("real", steps)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_close_the_window(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.e2e.drive_window", "fake", "run-toy", "--log-level", "info"]
    process = subprocess.Popen(
        command,
        env=environment(QT_QPA_PLATFORM="offscreen"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "all steps done\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


@pytest.fixture
def grab(tmp_path: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], Path]]:
    def make(*options: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        picture = tmp_path / "a picture.png"
        return child("app", *options, "--grab", str(picture)), picture

    return make


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ((), (1440, 900)),
        (("--run", "--toy", "--after", "7", "--size", "1024x700", "--theme", "dark"), (1024, 700)),
        (("--run", "--toy", "--after", "finished", "-n", "30"), (1440, 900)),
        (("--run", "--toy", "--after", "5", "--while-running", "--pace", "0.01", "-n", "-1"), (1440, 900)),
        (("--run", "--toy", "--after", "6", "--until-rejection", "--select", "2:1", "--seed", "3"), (1440, 900)),
        (("--run", "--prompt", "Call me Ishmael", "--after", "4", "--seed", "1"), (1440, 900)),
    ],
)
def test_the_picture_is_saved_without_a_display(grab, options: tuple[str, ...], size: tuple[int, int]) -> None:
    done, picture = grab(*options)
    assert done.returncode == 0, done.stderr
    assert png_size(picture) == size, done.stderr


def test_a_run_that_ends_early_is_pictured_and_told(grab) -> None:
    done, picture = grab("--run", "--toy", "--after", "500", "-n", "20")
    assert done.returncode == 0
    assert picture.exists()
    assert "before the 500 asked for" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--run", "--target", "/no/such/folder"), "/no/such/folder"),
        (("--run", "--toy", "--prompt", " "), "prompt"),
        (("--run", "--toy", "--temp", "-1"), "temperature: expected"),
        (("--run", "--toy", "--rewind", "sideways"), "rewind: expected"),
        (("--run", "--toy", "--seed", "-5"), "seed: expected"),
        (("--run", "--toy", "--after", "3", "--select", "77:1"), "there is no round 77"),
    ],
)
def test_a_picture_that_can_not_be_made_says_why(grab, options: tuple[str, ...], words: str) -> None:
    done, picture = grab(*options)
    assert done.returncode not in (0, -6, -11)
    assert not picture.exists()
    assert words in done.stderr, done.stderr


def test_a_picture_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    done = child("app", "--grab", str(tmp_path / "no folder" / "x.png"))
    assert done.returncode == 1
    assert "can't be written" in done.stderr


@pytest.mark.parametrize("options", [("--help",), ("--version",)])
def test_help_and_version_need_neither_a_display_nor_qt_nor_mlx(options: tuple[str, ...]) -> None:
    """R143."""
    code = (
        "import sys, app.__main__\n"
        "try:\n    app.__main__.main(sys.argv[1:])\n"
        "finally:\n    print([name for name in sys.modules if name.startswith(('PySide6', 'mlx'))], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *options],
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
    )
    assert done.returncode == 0
    assert "draftscope" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can be without a display server")
def test_without_a_display_the_window_says_so() -> None:
    done = child("app")
    assert done.returncode == 2
    assert "no display was found" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--size", "10x10"), "expected WIDTHxHEIGHT"),
        (("--after", "soon"), 'expected a number of rounds from 1, or "finished"'),
        (("--select", "x"), "expected ROUND:POSITION"),
        (("--pace", "-1"), "expected seconds"),
        (("--seed", "many"), "expected a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_words(options: tuple[str, ...], words: str) -> None:
    done = child("app", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_file_that_cannot_be_recorded_into_is_refused_before_the_window(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("milk, bread " * 100)
    for name, words in (("no/a", "folder doesn't exist"), (".", "is a folder"), ("list", "no Draftscope session")):
        done = child("app", "--run", "--toy", "--record", str(tmp_path / name), QT_QPA_PLATFORM="offscreen")
        assert done.returncode == 2
        assert done.stderr.startswith("draftscope: --record: ")
        assert words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["list"]


@pytest.mark.parametrize(("place", "words"), [("3:99", "positions 1 to"), ("9999", "there is no round 9999")])
def test_a_selection_that_is_not_there_is_said(tmp_path: Path, place: str, words: str) -> None:
    sample = ROOT / "resources" / "samples" / "stochastic.draftscope"
    picture = tmp_path / "a.png"
    options = ("--open", str(sample), "--grab", str(picture), "--select", place)
    done = child("app", *options, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 1
    assert words in done.stderr
    assert not picture.exists()


def test_sigterm_while_a_crash_is_asked_about_ends_well_and_asks_again(tmp_path: Path) -> None:
    folder = tmp_path / "draftscope" / "draftscope" / "sessions"
    folder.mkdir(parents=True)
    left = folder / "2026-01-02 03.04.05.draftscope"
    shutil.copy(ROOT / "resources" / "samples" / "stochastic.draftscope", left)
    mark = left.with_name(f"{left.name}.lock")
    mark.write_text(f"999999999\ndraftscope\n{socket.gethostname()}\n")
    for _ in range(2):  # who hasn't answered is asked again
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.drive_window", "fake", "asked"],
            env=environment(QT_QPA_PLATFORM="offscreen", XDG_DATA_HOME=str(tmp_path)),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "all steps done\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        for word in WORDS_OF_TROUBLE:
            assert word not in errors, errors
        assert left.exists()


def test_a_program_without_qt_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "PySide6").mkdir()
    (tmp_path / "PySide6" / "__init__.py").write_text(
        "raise ImportError('libEGL.so.1: cannot open shared object file')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "app"],
        env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}", QT_QPA_PLATFORM="offscreen"),
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "libegl1" in done.stderr
    assert "Traceback" not in done.stderr
