"""Exports: strict, safe to open, a round at a time, and the summary's numbers as AIPerf defines them."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import made_header, made_round, made_run, seen

from engine.export import FORMATS, POSITION_COLUMNS, ROUND_COLUMNS, export, jsonl, safe_cell, summary
from engine.recording import RecordedRun
from engine.round_page import round_page
from engine.rounds import Draft, Emitted, Round
from engine.run_json import round_object
from engine.text import Vocabulary

HOSTILE = (
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =cmd|' /C calc'!A0", "'quoted"),
    *(
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        'a,b;\n"c"',
        "\u202eevil\u2066",
        "\x1b[31m",
        "plain",
    ),
)


def drafts(*fates: str, token: int = 0) -> list[Draft]:
    return [Draft(token + at, fate) for at, fate in enumerate(fates)]


def counted_run() -> RecordedRun:
    """Five rounds: 2 of 3 accepted, 3 of 3, 0 of 3, none drafted, 1 of 2 and then the end."""
    yes, no, behind = "accepted", "rejected", "ignored"
    return made_run(
        made_header(num_draft_tokens=3),
        [
            made_round(0, drafts(yes, yes, no), [(0, yes), (1, yes), (3, "recovered")]),
            made_round(1, drafts(yes, yes, yes), [(0, yes), (1, yes), (2, yes), (3, "bonus")]),
            made_round(2, drafts(no, behind, behind), [(3, "recovered")]),
            made_round(3, [], [(3, "target-draw")]),
            made_round(4, drafts(yes, behind), [(0, yes)]),
        ],
    )


def test_the_summary_is_aiperfs_record() -> None:
    found = summary(7, counted_run())
    assert found["run"] == 7
    assert found["num_spec_steps"] == 4
    assert (found["num_draft_tokens"], found["num_accepted_draft_tokens"]) == (11, 6)
    assert (found["draft_n"], found["draft_n_accepted"]) == (11, 6)
    assert found["mean_acceptance_length"] == 1 + 6 / 4
    assert found["draft_acceptance_rate"] == 6 / 11
    assert found["acceptance_histogram"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert found["per_step_accepted"] == [2, 3, 0, 1]
    assert found["per_step_drafted"] == [3, 3, 3, 2]
    assert (found["num_spec_tokens"], found["completion_tokens"], found["rounds"]) == (3, 10, 5)
    # The identities that AIPerf's own model refuses a record without.
    histogram = {int(count): times for count, times in found["acceptance_histogram"].items()}
    assert sum(histogram.values()) == found["num_spec_steps"]
    assert sum(count * times for count, times in histogram.items()) == found["num_accepted_draft_tokens"]


def test_without_drafts_the_rates_are_null() -> None:
    run = made_run(made_header(num_draft_tokens=0), [made_round(0, [], [(1, "target-draw")])])
    found = summary(1, run)
    assert found["mean_acceptance_length"] is None
    assert found["draft_acceptance_rate"] is None
    assert found["acceptance_histogram"] == {}
    empty = summary(1, RecordedRun(made_header()))
    assert (empty["rounds"], empty["rule"], empty["finish_reason"]) == (0, None, None)


def exported(kind: str, *runs: RecordedRun, **options: Any) -> str:
    return "".join(export(kind, enumerate(runs, start=1), **options))


def test_json_holds_every_run() -> None:
    found = json.loads(exported("json", counted_run(), counted_run()))
    assert [run["run"] for run in found["runs"]] == [1, 2]
    assert found["runs"][0] == summary(1, counted_run())


def test_a_round_a_line() -> None:
    run = counted_run()
    lines = exported("jsonl", run, run).splitlines()
    assert [(found["run"], found["index"]) for found in map(json.loads, lines)] == [
        *((n, i) for n in (1, 2) for i in range(5))
    ]
    assert json.loads(lines[1]) == {"run": 1} | json.loads(json.dumps(round_object(run[1], run.header.vocabulary)))
    (line,) = exported("jsonl", run, number=2).splitlines()
    assert json.loads(line)["index"] == 2
    with pytest.raises(IndexError):
        exported("jsonl", run, number=5)


def test_json_is_strict() -> None:
    kept = seen([0.5, math.nan, 0.25, math.inf])
    run = made_run(made_header(), [made_round(0, [], [(1, "target-draw")], distributions=(kept,))])
    (line,) = jsonl([(1, run)], distributions=True)
    found = json.loads(line, parse_constant=lambda name: pytest.fail(f"not strict: {name}"))
    assert found["distributions"][0]["p"] == [0.5, None, 0.25, None]
    assert "distributions" not in json.loads(exported("jsonl", run))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_of_rounds() -> None:
    found = rows(exported("csv", counted_run()))
    assert list(found[0]) == list(ROUND_COLUMNS)
    assert [row["accepted"] for row in found] == ["2", "3", "0", "0", "1"]
    assert [row["outcome"] for row in found] == ["rejected", "accepted-all", "rejected", "plain", "ended"]
    assert found[0]["tokens"] == "0 1 3"
    assert found[0]["text"] == " a b d"
    assert {row["sum_min"] for row in found} == {""}, "undefined is empty"
    assert float(found[0]["verify_seconds"]) == 0.5
    no_cache = [dataclasses.replace(counted_run()[0], draft_cache=None)]
    assert rows(exported("csv", made_run(made_header(), no_cache)))[0]["draft_end"] == ""


def test_csv_of_positions() -> None:
    found = rows(exported("csv-positions", counted_run(), number=1))
    assert list(found[0]) == list(POSITION_COLUMNS)
    assert [row["position"] for row in found] == ["1", "2", "3", "4"]
    assert [row["fate"] for row in found] == ["accepted"] * 3 + [""]
    assert [row["source"] for row in found] == ["accepted"] * 3 + ["bonus"]
    assert (found[3]["drafted"], found[3]["emitted_text"]) == ("", " d")
    found = rows(exported("csv-positions", counted_run(), number=0))
    assert [(row["fate"], row["emitted"]) for row in found] == [("accepted", "0"), ("accepted", "1"), ("rejected", "3")]
    draft = Draft(1, "accepted", q=0.25, p=0.5, u=0.125, threshold=0.03125, sum_min=0.75)
    (row,) = rows(exported("csv-positions", made_run(made_header(), [made_round(0, [draft], [(1, "accepted")])])))
    assert [float(row[name]) for name in ("q", "p", "u", "threshold", "sum_min")] == [0.25, 0.5, 0.125, 0.03125, 0.75]
    assert row["match"] == ""


def test_a_position_far_away_costs_nothing() -> None:
    far = dataclasses.replace(made_round(0, [], []), emitted=(Emitted(1, "bonus", 10**12), Emitted(2, "bonus", -5)))
    found = rows(exported("csv-positions", made_run(made_header(), [far])))
    assert [row["position"] for row in found] == ["-4", str(10**12 + 1)]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_of_text_is_no_formula_and_comes_back(text: str) -> None:
    vocabulary = Vocabulary((text.encode(),), frozenset(), {}, frozenset())
    run = made_run(made_header(vocabulary=vocabulary), [made_round(0, drafts("accepted"), [(0, "accepted")])])
    for kind, name in (("csv", "text"), ("csv-positions", "drafted_text"), ("csv-positions", "emitted_text")):
        cell = rows(exported(kind, run))[0][name]
        assert cell.lstrip()[:1] not in ("=", "+", "-", "@")
        assert cell[:1] not in ("\t", "\r")
        assert cell.removeprefix("'") == text


def test_numbers_stay_numbers() -> None:
    assert safe_cell(-1) == -1
    assert safe_cell(-0.5) == -0.5
    assert [safe_cell(value) for value in (None, math.nan, -math.inf)] == [""] * 3


def test_text_of_the_file_is_safe_wherever_it_stands() -> None:
    fields = {"rule": "=rule()", "forced": "@forced"}
    run = made_run(made_header(), [])
    run.append(dataclasses.replace(counted_run()[3], index=0, forced=fields["forced"]))
    (row,) = rows(exported("csv", run))
    assert row["forced"] == "'@forced"


class Counting(RecordedRun):
    """A run that counts what is read of it."""

    reads = 0

    def __getitem__(self, index: int) -> Round:
        self.reads += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "csv-positions"])
def test_rounds_are_read_as_they_are_written(kind: str) -> None:
    run = Counting(made_header())
    for index in range(100):
        run.append(made_round(index, [], [(1, "target-draw")]))
    run.reads = 0
    pieces = export(kind, [(1, run)])
    list(itertools.islice(pieces, 4))
    assert run.reads <= 5
    assert len(list(pieces)) >= 96


def test_the_help_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "resources" / "help" / "recordings.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9_-]+)`", page))
    assert {*ROUND_COLUMNS, *POSITION_COLUMNS, *FORMATS, *summary(1, counted_run())} <= named


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'xml'"):
        export("xml", [])


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_page() -> Page:
    pieces = tuple(text.encode() for text in HOSTILE)
    vocabulary = Vocabulary((*pieces, b""), frozenset({len(pieces)}), {len(pieces): "<|im_end|><script>"}, frozenset())
    count = len(vocabulary)
    kept = seen([1 / count] * count, [0.5, *[0.0] * (count - 1)])
    kept = dataclasses.replace(kept, residual=np.array([math.nan] * count, np.float32), residual_mass=0.5)
    target = dataclasses.replace(made_header().target, name="<img src=x>", path="/tmp")
    record = made_round(
        0,
        [Draft(at, "rejected<b>" if at else "accepted", p=0.5, q=0.5, u=0.5, threshold=0.25) for at in range(count)],
        [(at, "<i>source") for at in range(count)],
        distributions=(kept,) * (count + 1),
        rule_reason="<script>x</script>",
        changed={"<b>": "<script>"},
        forced="<u>forced",
    )
    header = made_header(vocabulary=vocabulary, target=target, prompt_tokens=tuple(range(count)))
    tame = tuple(dataclasses.replace(emitted, source="target-draw") for emitted in record.emitted)
    run = made_run(header, [dataclasses.replace(record, emitted=tame)])
    run._rounds = [record]  # no live run takes such a source, but a file may hold one
    text = round_page(run, 3, 0)
    assert "<script" not in text.lower()
    assert "onerror=alert(1)>" not in text
    return Page(text)


def test_the_page_holds_no_markup_of_a_token() -> None:
    page = hostile_page()
    assert page.open == []
    allowed = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "strong", "span", "div"}
    assert set(page.tags) <= allowed | {"table", "tr", "th", "td"}
    assert {name for name, _ in page.attributes} <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "style",
    }
    styles = [value or "" for name, value in page.attributes if name == "style"]
    assert all(style.startswith("width:") and style.endswith("%") for style in styles)
    assert "<script>alert(1)</script>" in page.text, "it is there, as text"
    assert "<|im_end|><script>" in page.text
    assert not {"\u202e", "\u2066", "\x1b"} & set(page.text)
    assert "<U+202E>" in page.text
    policies = [value for name, value in page.attributes if name == "content"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policies


def test_the_page_tells_the_round() -> None:
    draft = Draft(1, "rejected", q=0.5, p=0.125, u=0.75, threshold=0.375, sum_min=0.625)
    kept = seen([0.125, 0.125, 0.25, 0.5], [0.25, 0.5, 0.25, 0.0])
    first = made_round(0, [], [(2, "target-draw")])
    record = made_round(1, [draft], [(3, "recovered")], distributions=(kept, seen([0.25] * 4)))
    page = Page(round_page(made_run(made_header(), [first, record]), 2, 1))
    for expected in (
        "Round 1 of run 2",
        "u·q 0.375 > p 0.125",
        "rejected",
        "recovered",
        "0.625",
        "p and q at position 1",
    ):
        assert expected in page.text, expected
    assert " a c d" in page.text, "the prompt, what was emitted before, and the round's own token"
    widths = [value for name, value in page.attributes if name == "style"]
    assert widths[:2] == ["width:12.50%", "width:25.00%"]
    plain = Page(round_page(made_run(made_header(), [first]), 1, 0)).text
    assert "Nothing was drafted" in plain
    with pytest.raises(IndexError):
        round_page(made_run(made_header(), [first]), 1, 1)
