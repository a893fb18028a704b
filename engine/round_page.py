"""One round as a web page of its own: no script, nothing loaded from anywhere, all text escaped. No MLX."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.recording import RecordedRun
from engine.rounds import CachePositions, Distributions, Draft, Round
from engine.text import Vocabulary

SHOWN = 12
"""Tokens in a table of probabilities."""

CONTEXT = 60
"""Tokens before the round that are shown."""

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
.token { font-family: ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.mark { opacity: .55; } .accepted { color: #009E73; } .rejected { color: #D55E00; } .ignored { opacity: .6; }
.bar { display: block; height: .7rem; min-width: 1px; } .p { background: #0072B2; } .q { background: #56B4E9; }
td.bars { width: 16rem; padding: .2rem 0; } .scroll { overflow-x: auto; } p.token { max-width: 60rem; }
"""


def round_page(run: RecordedRun, name: int, number: int) -> str:
    """The page of round `number` of a run, which is number `name` of its file. Raises IndexError, SessionFileError."""
    record = run[number]
    header, vocabulary = run.header, run.header.vocabulary
    title = f"Round {record.index} of run {name}"
    drafter = header.drafter if header.draft is None else f"{header.draft.name} ({header.drafter})"
    first = int(run.column("first_token")[number])
    lossless = "lossless" if record.distribution_preserving else "not lossless"
    parts = [
        f"<h1>{title}</h1>",
        _facts(
            ("rule", f"{record.rule} ({record.rule_label}), {lossless}: {record.rule_reason}"),
            ("target", header.target.name),
            ("drafter", drafter),
            ("seed", header.seed),
            ("temperature", header.settings.sampler.temperature),
            ("tokens before the round", record.context_length),
            ("debt, drift", f"{record.debt}, {record.drift}"),
            *((("forced", record.forced),) if record.forced else ()),
            *((("changed", ", ".join(f"{k} = {v}" for k, v in record.changed.items())),) if record.changed else ()),
        ),
        "<h2>Text</h2>",
        f'<p class="token">{_context(run, first)}<strong>{_tokens(vocabulary, (e.token for e in record.emitted))}'
        "</strong></p>",
        "<h2>Drafted</h2>",
        _drafted(record, vocabulary),
        "<h2>Emitted</h2>",
        _table(
            ("token", "id", "source", "position", "probability"),
            (
                (_token(vocabulary, e.token), e.token, _escaped(e.source), e.position + 1, _number(e.probability))
                for e in record.emitted
            ),
        ),
        "<h2>Caches</h2>",
        _table(
            ("cache", "held before", "forwarded", "trim asked", "trim done", "replayed", "holds", "expected"),
            (_cache("main", record.main_cache), *(_cache("draft", c) for c in [record.draft_cache] if c is not None)),
        ),
        *_distributions(record, vocabulary),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _context(run: RecordedRun, first: int) -> str:
    """The tokens right before the emitted one with index `first`."""
    header = run.header
    before = run.tokens[max(first - CONTEXT, 0) : first]
    if (missing := CONTEXT - len(before)) > 0:
        before = [*header.prompt_tokens[-missing:], *before]
    return _tokens(header.vocabulary, before)


def _drafted(record: Round, vocabulary: Vocabulary) -> str:
    if not record.drafts:
        return "<p>Nothing was drafted (k = 0).</p>"
    return _table(
        ("position", "token", "id", "q(d)", "p(d)", "u", "test", "fate", "Σ min", "Σ p·q"),
        (
            (
                at + 1,
                _token(vocabulary, d.token),
                d.token,
                *(_number(value) for value in (d.q, d.p, d.u)),
                _test(d, record.rule, vocabulary),
                f'<span class="{d.fate}">{d.fate}</span>' if d.fate in ("accepted", "rejected", "ignored") else "-",
                *(_number(value) for value in (d.sum_min, d.sum_prod)),
            )
            for at, d in enumerate(record.drafts)
        ),
    )


def _test(draft: Draft, rule: str, vocabulary: Vocabulary) -> str:
    """The comparison that decided."""
    if draft.u is not None and draft.threshold is not None:
        if rule == "block":
            left, right, name = draft.u, draft.threshold, f"u {{}} h {_number(draft.threshold)}"
        elif draft.p is not None:
            left, right = draft.threshold, draft.p
            name = f"u·q {_number(draft.threshold)} {{}} p {_number(draft.p)}"
        else:
            return "-"
        return name.format("≤" if left <= right else "&gt;")
    return "-" if draft.match is None else f"d = {_token(vocabulary, draft.match)} ?"


def _cache(name: str, cache: CachePositions) -> tuple[Any, ...]:
    asked, done = (_escaped(", ".join(map(str, trims))) for trims in (cache.trim_asked, cache.trim_done))
    return name, cache.start, cache.forwarded, asked, done, cache.replayed, cache.end, cache.expected_end


def _distributions(record: Round, vocabulary: Vocabulary) -> Iterator[str]:
    for at, seen in enumerate(record.distributions):
        kind = "" if at < record.k else ", behind the drafts"
        yield f"<h2>p and q at position {at + 1}{kind}</h2>"
        yield _probabilities(seen, vocabulary)


def _probabilities(seen: Distributions, vocabulary: Vocabulary) -> str:
    columns = [seen.p.tolist()]
    names = ["token", "id", "p"]
    if seen.q is not None:
        columns.append(seen.q.tolist())
        names.append("q")
    if seen.residual is not None:
        columns.append(seen.residual.tolist())
        names.append("residual")
    rows = list(zip(seen.ids.tolist(), *columns, strict=False))[:SHOWN]
    table = _table(
        (*names, ""),
        ((_token(vocabulary, row[0]), row[0], *map(_number, row[1:]), _bars(row[1:3], seen.q)) for row in rows),
        ("bars",),
    )
    mass = "" if seen.residual_mass is None else f" Residual mass Z = {_number(seen.residual_mass)}."
    return f"{table}\n<p>{len(rows)} of {seen.vocab_size} tokens.{mass}</p>"


def _bars(values: Sequence[float], q: Any) -> str:
    kinds = ("p", "q") if q is not None else ("p",)
    pairs = zip(kinds, values, strict=False)
    return "".join(f'<span class="bar {kind}" style="width:{_percent(value)}%"></span>' for kind, value in pairs)


def _percent(value: float) -> str:
    return f"{100 * min(max(value, 0.0), 1.0):.2f}" if value == value else "0"


# Pieces


def _facts(*rows: tuple[str, Any]) -> str:
    return _table((), ((name, _escaped(str(value))) for name, value in rows), ("text",))


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]], last: Sequence[str] = ()) -> str:
    """`rows` hold markup, or numbers; `last`: the class of the last cell."""
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(f"<tr>{''.join(_cells(row, last))}</tr>\n" for row in rows)
    return f'<div class="scroll"><table>{f"<tr>{head}</tr>" if head else ""}\n{body}</table></div>'


def _cells(row: Sequence[Any], last: Sequence[str]) -> Iterator[str]:
    for at, cell in enumerate(row):
        kind = f' class="{last[0]}"' if last and at == len(row) - 1 else ""
        yield f"<td{kind}>{cell}</td>"


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4g}"


def _tokens(vocabulary: Vocabulary, tokens: Iterable[int]) -> str:
    return "".join(_visible(vocabulary.text_of(token), mark_spaces=False) for token in tokens)


def _token(vocabulary: Vocabulary, token: int) -> str:
    return f'<span class="token">{_visible(vocabulary.text_of(token), mark_spaces=True)}</span>'


def _escaped(text: str) -> str:
    return _visible(text, mark_spaces=False)


_MARKS = {"\n": "↵", "\t": "→", " ": "·"}


def _visible(text: str, mark_spaces: bool) -> str:
    """Escaped text in which nothing is invisible or reorders its neighbours."""
    return "".join(_character(character, mark_spaces) for character in text)


def _character(character: str, mark_spaces: bool) -> str:
    if character == " " and not mark_spaces:
        return character
    if character in _MARKS:
        return f'<span class="mark">{_MARKS[character]}</span>'
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"):
        return f'<span class="mark">&lt;U+{ord(character):04X}&gt;</span>'
    return html.escape(character)
