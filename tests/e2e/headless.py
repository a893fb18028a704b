"""Runs the headless commands: in this process for many short runs, as a child where the process itself matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app import __main__ as program
from tests.validate_run import check

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """The one strict JSON object on standard output."""
        assert self.out.count("\n") == 1, self.out[:400]
        found: dict[str, Any] = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"not strict: {name}"))
        return found


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Run in this process."""
    capsys.readouterr()
    try:
        code = program.main(list(arguments))
    except SystemExit as error:
        code = int(error.code or 0)
    out, err = capsys.readouterr()
    return Done(code, out, err)


def lawful(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Run with every round, hold it against the laws, return its object."""
    done = command(capsys, "run", "--json", "--rounds", *arguments)
    assert done.code == 0, done.err
    found = done.object
    assert list(check(found)) == [], arguments
    return found


def environment(**more: str) -> dict[str, str]:
    """Of a child: no display, no Qt platform, this checkout importable."""
    kept = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **more}


def start(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """The program as a child process, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", *arguments],
        env=environment(**more),
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def child(*arguments: str, stdin: str | None = None, **more: str) -> Done:
    """Run as a child process to its end."""
    process = start(*arguments, **more)
    out, err = process.communicate(stdin, timeout=120)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)
