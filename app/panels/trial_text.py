"""What the trial says: the recorded test of a draft beside the same with another u, temperature or rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.fields import sentence
from app.format import comparison, count, probability, significant, visible_text
from app.panels.title_controls import Table, exact
from engine.forks import temperature_before
from engine.offline import RULES, WITH_U, WhatIf, what_if
from engine.recording import RecordedRun
from engine.rounds import Draft, Round
from engine.rules import RULE_TABLE
from engine.settings import SettingsError

MOST_BARS = 8
"""Tokens of a replacement that are listed."""

ALMOST = "≈ "
"""Stands before every number that isn't exact."""

FORKED = ("accept", "reject")
_USUAL = {"sampler-match-no-proposal-distribution": "sampler-match"}
_DRAWN_FROM = {
    "stochastic": "relu(p − q)/Z",
    "resample-from-p": "p",
    "sampler-match": "p",
    "argmax-vs-argmax": "the argmax of p",
}
_NO_U = {
    "sampler-match": "sampler-match draws no u: it compares the draft with a fresh draw from p.",
    "argmax-vs-argmax": "argmax-vs-argmax draws no u: it compares the draft with the argmax of p.",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be tried; None: as it was recorded."""

    rule: str | None = None
    u: float | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ForkWish:
    """What a fork before a round is to be offered with. `decree`: one of FORKED at `position` (from 0), or None."""

    rule: str | None
    temperature: float | None
    decree: str | None
    position: int


@dataclass(frozen=True, slots=True)
class Cell:
    """`text`, or a `token`; `glyph` before it, in the ink of an outcome by its name in the palette."""

    text: str = ""
    token: int | None = None
    glyph: str | None = None
    ink: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing in both tests. `changed`: it is another one in the trial."""

    name: str
    was: Cell
    tried: Cell
    about: str

    @property
    def changed(self) -> bool:
        return self.was != self.tried


@dataclass(frozen=True, slots=True)
class Trial:
    """All that is shown. `reason` says why there is none; then the rest is empty.

    `share`: up to which u the draft is accepted, None for rules without u. `rules`: (rule, why it can't be tried).
    `notes`: sentences below. `draws`: (token, probability, shown) of the replacement, `others` and `rest` what isn't
    listed and its mass. `approximate`: why numbers carry ALMOST.
    """

    place: str
    reason: str = ""
    draft: int = 0
    rule: str = ""
    u: float | None = None
    recorded_u: float | None = None
    temperature: float = 0.0
    share: float | None = None
    rules: tuple[tuple[str, str], ...] = ()
    why_no_u: str = ""
    lines: tuple[Line, ...] = ()
    approximate: str = ""
    notes: tuple[str, ...] = ()
    drawn_from: str = ""
    draws: tuple[tuple[int, float, str], ...] = ()
    others: int = 0
    rest: str = ""
    found: WhatIf | None = None
    fork: ForkWish | None = None


def trial(run: RecordedRun, record: Round, position: int, wish: Wish) -> Trial:
    """The test at a position (from 0) as recorded and as wished for."""
    place = f"round {record.index}, position {position + 1}"
    reason = why_no_trial(record, position)
    if reason:
        return Trial(place, reason)
    recorded = temperature_at(run, record.index)
    wanted = recorded if wish.temperature is None else wish.temperature
    rule = wish.rule or usual_rule(record, position)
    settings = run.header.settings
    # The fork dialog leaves a drafter's own sampler as it is, and an argmax is one at every temperature.
    own = settings.draft_sampler is not None or settings.one_hot_q
    try:
        found = what_if(
            record,
            position,
            rule=rule,
            u=wish.u if rule in WITH_U else None,
            temperature_ratio=1.0 if wanted == recorded else wanted / recorded if recorded > 0 else np.inf,
            draft_ratio=1.0 if own else None,
        )
    except SettingsError as error:
        return Trial(place, sentence(str(error)))
    draft = record.drafts[position]
    draws, others, rest = _draws(found, record.distributions[position].vocab_size)
    return Trial(
        place=place,
        draft=draft.token,
        rule=rule,
        u=found.u,
        recorded_u=draft.u,
        temperature=wanted,
        share=found.probability if rule in WITH_U else None,
        rules=tuple((name, why_no_rule(name, record, position)) for name in RULES),
        why_no_u=_NO_U.get(rule, ""),
        lines=_lines(record, position, found, recorded, wanted),
        approximate=_approximate(found),
        notes=_notes(record, position, wanted != recorded, own, found),
        drawn_from=_DRAWN_FROM[rule],
        draws=draws,
        others=others,
        rest=rest,
        found=found,
        fork=_fork(record, position, wish, rule, wanted if wanted != recorded else None, found),
    )


def why_no_trial(record: Round, position: int) -> str:
    """Why nothing can be tried at a position; "" where it can."""
    if record.rule_reason.startswith("this round can't be read"):
        return sentence(record.rule_reason.removesuffix("."))
    if record.k == 0:
        return f"Round {record.index} drafted nothing: its token is a draw from p, and there is no test to try."
    if position >= record.k:
        return f"Position {position + 1} is behind the drafts: its token is a draw from p, and nothing is tested there."
    if len(record.distributions) <= position:
        return f"Round {record.index} was recorded without its distributions, so there are no p and q to try with."
    if record.rule == "greedy-argmax":
        return (
            "The target's sampler is greedy: nothing was drawn, and what was kept says nothing of other temperatures. "
            "A fork can have one."
        )
    return ""


def usual_rule(record: Round, position: int) -> str:
    """The rule that a trial begins with: the round's own, or the nearest to it that can be tried at one position."""
    rule = _USUAL.get(record.rule, record.rule)
    if rule in RULES:
        return rule
    return "sampler-match" if record.distributions[position].q is None else "stochastic"


def why_no_rule(rule: str, record: Round, position: int) -> str:
    """Why a rule can't be tried at a position; "" where it can."""
    needs = RULE_TABLE[rule].needs_q and record.distributions[position].q is None
    return "The drafter reports no q." if needs else ""


def temperature_at(run: RecordedRun, index: int) -> float:
    """The target's temperature in a round; a fork's first rounds are those of the run that it came from."""
    here: RecordedRun | None = run
    seen: set[int] = set()
    while here is not None and here.parent is not None and index < here.parent[1] and id(here) not in seen:
        seen.add(id(here))
        here = here.parent[0]
    assert here is not None
    before = temperature_before(here.header.notices, index) if here.parent is None else None
    return here.header.settings.sampler.temperature if before is None else before


def _lines(record: Round, position: int, found: WhatIf, recorded: float, wanted: float) -> tuple[Line, ...]:
    draft, seen = record.drafts[position], record.distributions[position]
    at = int(np.flatnonzero(seen.ids == draft.token)[0])
    p = draft.p if draft.p is not None else float(seen.p[at])
    q = draft.q if draft.q is not None or seen.q is None else float(seen.q[at])
    block = record.rule == "block"
    was = comparison(None if block else draft.threshold, p)
    tried = comparison(found.threshold, found.p)
    mark = ALMOST if found.approximate else ""

    def number(text: str, sign: str = mark) -> Cell:
        return Cell("-" if text == "-" else f"{sign}{text}")

    def plain(value: float | None) -> Cell:
        return Cell(significant(value))

    lines = [
        Line("the draft is", _fate(draft), _verdict(found, mark), "what became of the draft"),
        Line("emits", _emitted(record, position), _would_emit(found), "the token at this position"),
        Line("u·q(d)", Cell(was[0]), number(tried[0]), "the draft is accepted if this is at most p(d) > 0"),
        Line("≤ p(d)?", Cell(was[1]), number(tried[1]), "the target's probability of the draft"),
    ]
    if draft.match is not None or found.rule not in WITH_U:
        recorded_match = Cell("-") if draft.match is None else Cell(token=draft.match)
        tried_match = Cell("-" if found.rule in WITH_U else "a fresh draw")
        if found.match is not None:
            tried_match = Cell(token=found.match)
        lines.append(Line("is it", recorded_match, tried_match, "the token that the draft is compared with"))
    shown_u = found.u if found.rule in WITH_U else None
    lines.append(Line("u", plain(draft.u), plain(shown_u), "the accept draw"))
    if block:
        lines.append(Line("≤ h?", plain(draft.threshold), Cell("-"), "block's threshold for u"))
    lines.append(Line("q(d)", plain(q), number(significant(found.q)), "the drafter's probability of the draft"))
    chance = number(probability(found.probability))
    lines.append(Line("P(accept)", Cell(probability(_chance(record, p, q))), chance, "over all u, or draws"))
    if wanted != recorded:
        lines.append(Line("T", Cell(f"{recorded:g}"), Cell(f"{wanted:g}"), "temperature of the target"))
    rule = record.rule if _USUAL.get(record.rule) == found.rule else found.rule
    lines.append(Line("rule", Cell(record.rule), Cell(rule), "the acceptance rule"))
    return tuple(lines)


def _chance(record: Round, p: float, q: float | None) -> float | None:
    """The chance that this draft was accepted, under the rules for which one position says it."""
    if record.rule in ("stochastic", "resample-from-p") and q is not None:
        return 0.0 if p <= 0 else min(p / q, 1.0) if q > 0 else 1.0
    if record.rule.startswith("sampler-match"):
        return p
    return None


def _fate(draft: Draft) -> Cell:
    fates = {"accepted": ("check", "accepted"), "rejected": ("cross", "rejected")}
    if draft.fate not in fates:
        return Cell("not tested")
    glyph, ink = fates[draft.fate]
    return Cell(draft.fate, glyph=glyph, ink=ink)


def _verdict(found: WhatIf, mark: str) -> Cell:
    if found.accepted is None:
        return Cell("not known")
    # How the draft compares with the argmax doesn't depend on numbers that aren't exact.
    mark = "" if found.rule == "argmax-vs-argmax" else mark
    if found.accepted:
        return Cell(f"{mark}accepted", glyph="check", ink="accepted")
    return Cell(f"{mark}rejected", glyph="cross", ink="rejected")


def _emitted(record: Round, position: int) -> Cell:
    token = next((e.token for e in record.emitted if e.position == position), None)
    return Cell("-") if token is None else Cell(token=token)


def _would_emit(found: WhatIf) -> Cell:
    if found.token is not None:
        return Cell(token=found.token)
    return Cell("draft or a draw" if found.accepted is None else "a new draw")


def _approximate(found: WhatIf) -> str:
    if found.approximate is not None:
        return sentence(found.approximate)
    return "" if found.draw_approximate is None else f"What replaces it: {found.draw_approximate}."


def _notes(record: Round, position: int, warmed: bool, own: bool, found: WhatIf) -> tuple[str, ...]:
    notes = []
    if record.drafts[position].fate == "ignored":
        notes.append("Not tested in the run: it holds if the round had come this far.")
    if record.forced:
        notes.append(f"The recorded outcome was decreed: {record.forced}.")
    if record.rule not in (*RULES, *_USUAL):
        notes.append(f"{record.rule} can't be tried at one position alone.")
    if warmed and own:
        notes.append("The drafter keeps its q: it doesn't follow this temperature.")
    elif warmed:
        notes.append("The draft stays what it was: with another q the drafter might have proposed another.")
    if found.accepted is None and found.rule == "sampler-match":
        notes.append("Its fresh draw isn't in the record, so only the chance is known.")
    return tuple(notes)


def _draws(found: WhatIf, vocab_size: int) -> tuple[tuple[tuple[int, float, str], ...], int, str]:
    """The largest of the replacement, how many tokens aren't listed, and their mass in words; 0, "" without any."""
    mark = ALMOST if found.draw_approximate else ""
    values = found.replacement
    # The whole vocabulary may be here: it isn't sorted for eight of it.
    some = np.argpartition(-values, MOST_BARS)[:MOST_BARS] if len(values) > MOST_BARS else np.arange(len(values))
    listed = [int(at) for at in sorted(some, key=lambda at: (-values[at], at)) if values[at] > 0]
    draws = tuple((int(found.ids[at]), float(values[at]), mark + probability(float(values[at]))) for at in listed)
    rest = max(found.rest + float(values.sum(dtype=np.float64)) - float(values[listed].sum(dtype=np.float64)), 0.0)
    if np.count_nonzero(values > 0) <= len(listed) and rest < 1e-6:
        return draws, 0, ""
    return draws, vocab_size - len(listed), mark + probability(rest)


def _fork(
    record: Round, position: int, wish: Wish, rule: str, temperature: float | None, found: WhatIf
) -> ForkWish | None:
    """What a fork would change; None where nothing is tried. A decree takes the place of a u, which none can set."""
    other = rule if wish.rule is not None and rule != record.rule else None
    decree = None
    if wish.u is not None and rule in WITH_U and found.accepted is not None:
        wanted = "accepted" if found.accepted else "rejected"
        if wanted != record.drafts[position].fate:
            decree = "accept" if found.accepted else "reject"
    if other is None and temperature is None and decree is None:
        return None
    return ForkWish(other, temperature, decree, position)


def trial_table(run: RecordedRun, made: Trial) -> Table:
    """Everything shown, for the clipboard, in full precision where a number is known so."""
    if made.reason:
        return [["trial", "recorded", "tried"]]

    def text(cell: Cell) -> str:
        return cell.text if cell.token is None else visible_text(run.header.vocabulary, cell.token)

    lines: list[list[str]] = [[made.place, "recorded", "tried"]]
    lines += [[line.name, text(line.was), text(line.tried)] for line in made.lines]
    if made.approximate:
        lines.append(["approximate", "", made.approximate])
    lines.append(["if rejected, drawn from", "", made.drawn_from])
    lines += [[visible_text(run.header.vocabulary, token), "", exact(value)] for token, value, _ in made.draws]
    if made.others:
        lines.append([f"{count(made.others)} others", "", made.rest])
    return lines


def spoken_trial(made: Trial) -> str:
    """What is shown, for assistive technology."""
    if made.reason:
        return made.reason
    parts = [f"{line.name}: {line.tried.text or 'a token'}, was {line.was.text or 'a token'}" for line in made.lines]
    return "; ".join([made.place, *parts, made.approximate, *made.notes]).rstrip("; ")
