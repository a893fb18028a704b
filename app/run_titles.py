"""One line for each recorded run of a list, for menus and pickers. No Qt."""

from __future__ import annotations

from engine.recording import RecordedRun


def titles(runs: list[RecordedRun]) -> list[tuple[str, RecordedRun]]:
    """(one line, run) of each; a fork says where it came from."""
    found = []
    for number, run in enumerate(runs, 1):
        title = title_of(number, run)
        if run.parent is not None:
            parent, at = run.parent
            where = f"run {runs.index(parent) + 1}" if parent in runs else "another run"
            title += f", forked from {where} before round {at}"
        found.append((title, run))
    return found


def title_of(number: int, run: RecordedRun) -> str:
    """One line for a run in a list."""
    rule = run[len(run) - 1].rule if len(run) else "no rounds"
    prompt = " ".join(run.header.prompt.split())
    short = f"{prompt[:30]}…" if len(prompt) > 31 else prompt
    return f"Run {number}: {rule}, {len(run.tokens)} tokens, seed {run.header.seed}, “{short}”"
