"""The help pages and the README: what they link to is there, what they show works."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from app.cli import PARSERS

ROOT = Path(__file__).parents[2]
HELP = ROOT / "resources" / "help"
PAGES = [ROOT / "README.md", *sorted(HELP.glob("*.md"))]
OF_THE_WINDOW = {"--run", "--prompt", "--grab", "--after", "--rewind", "--help"}


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        found += [(f"{page.stem}-{number}", block) for number, block in enumerate(blocks, start=1)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_pictures_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert "://" not in target, "the help is read without a network"
        assert (page.parent / target).exists(), target


def test_the_first_page_leads_to_every_other() -> None:
    index = (HELP / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in HELP.glob("*.md") if page.name != "index.md" and f"({page.name})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_hold_no_html(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.search(r"<[a-zA-Z/!]", text), "the viewer shows Markdown only"


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_examples_run(name: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, name, "exec"), {"__name__": name})
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_the_smallest_example_has_five_lines() -> None:
    first = next(code for name, code in examples() if name == "script-1")
    assert len([line for line in first.splitlines() if line.strip()]) == 5


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Its own and those of its subcommands."""
    found = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*(options_of(inner) for inner in action.choices.values()))
    return found


def test_options_named_in_the_pages_on_commands_exist() -> None:
    known = set().union(*(options_of(parser()) for parser in PARSERS.values()))
    for page, count in (("headless.md", 20), ("recordings.md", 7)):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]\b", (HELP / page).read_text(encoding="utf-8")))
        assert len(named) > count
        assert named <= known | OF_THE_WINDOW
