"""The view tells of each change once, whatever else it tells."""

from __future__ import annotations

from fakes import fake_run

from app.view import View


def test_changed_comes_once_and_last(view: View) -> None:
    run = fake_run(6)
    told: list[str] = []
    for name in ("run_changed", "advanced", "cursor_moved", "changed"):
        getattr(view, name).connect(lambda name=name: told.append(name))

    def told_by(act, *arguments: object) -> list[str]:
        told.clear()
        act(*arguments)
        return list(told)

    assert told_by(view.show_run, run) == ["run_changed", "cursor_moved", "changed"]
    assert told_by(view.notify_advanced) == ["advanced", "changed"]
    view.round_index = 2  # as if rounds had come since
    assert told_by(view.notify_advanced) == ["advanced", "cursor_moved", "changed"]
    assert told_by(view.select, 3, 0) == ["cursor_moved", "changed"]
    assert told_by(view.follow_tail) == ["cursor_moved", "changed"]
    assert told_by(view.select, 99) == []
