"""What the banner says: one notice for each thing that isn't as it was asked, with what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.format import millions
from app.model_choice import drafting_words
from engine.recording import RecordedRun
from engine.rewinds import REWIND_TABLE
from engine.rounds import ModelInfo
from engine.rules import RULE_TABLE
from engine.settings import Settings

if TYPE_CHECKING:
    from app.session import Session
    from app.worker import PairSummary

KILL_SWITCH, RULE, NOT_LOSSLESS = "kill switch", "rule", "not lossless"
REWIND, MAIN_REWIND, DRIFT = "rewind", "main rewind", "drift"
ERROR, BACKEND, RECORDING, PLAIN = "error", "backend", "recording", ""
DRAFTING, CHAT = "drafting", "chat"

_ON_DRAFTING = ("No draft model:", "k is 0:", "Target and draft are the same model")
_RUNNING = ("running", "paused", "stopping")


@dataclass(frozen=True)
class Notice:
    """A sentence with a button: the button's words, and the name of what it does ("" for none, `hide` for the line).

    `kind` tells what it is about, whatever the words; PLAIN ones are known by their words alone.
    """

    text: str
    kind: str = PLAIN
    button: str = "Hide"
    act: str = "hide"

    @property
    def identity(self) -> str:
        """The same for two notices that tell of the same thing."""
        return self.kind or self.text


@dataclass(frozen=True)
class _Cure:
    """A button and the live settings that it sets; it is offered while one of them stands otherwise."""

    button: str
    act: str
    sets: dict[str, Any]


_CURES = {
    KILL_SWITCH: _Cure("Turn it off", "kill_switch_off", {"kill_switch": False}),
    RULE: _Cure("Set rule to auto", "rule_auto", {"rule": "auto"}),
    NOT_LOSSLESS: _Cure("Set rule to auto", "rule_auto", {"rule": "auto"}),
    REWIND: _Cure("Set to correct", "rewind_correct", {"rewind": "correct"}),
    MAIN_REWIND: _Cure("Set to correct", "main_rewind_correct", {"main_rewind": "correct"}),
}
CHANGES = {cure.act: cure.sets for cure in _CURES.values()}
"""The live settings that a notice's act sets. Acts that aren't here, besides `hide`, are those in ACTIONS_OF."""

ACTIONS_OF = ("first_drift", "save_recording")
"""Acts that are actions of the window, by name."""


def notices(session: Session) -> list[Notice]:
    """Of the newest run, the pair and the backend; before a run also what it won't do as it was asked."""
    runs, settings = session.recording.runs, session.settings
    found: list[Notice] = []
    if runs and session.live_settings is not None:
        found += of_run(runs[-1], session.live_settings, settings)
    pair = session.pair
    if pair is not None:
        found += [of_models(text, pair.target, pair.draft) for text in pair.notices]
        found += of_prompt(session.chat, pair)
    if session.recorder is not None and session.recorder.failure:
        found.append(Notice(session.recorder.failure, RECORDING, "Save As…", "save_recording"))
    if "slow" in session.backend:
        found.append(Notice(f"Backend: {session.backend}.", BACKEND))
    if session.state not in _RUNNING:
        found += pending(settings) + (of_drafting(pair, settings) if pair is not None else [])
    return list({notice.identity: notice for notice in reversed(found)}.values())[::-1]


def of_run(run: RecordedRun, in_force: Settings, wanted: Settings) -> list[Notice]:
    """What isn't as it was asked in a run's newest round, whose settings are `in_force`; cures change `wanted`."""

    def notice(kind: str, text: str) -> Notice:
        return _with_cure(kind, text, wanted)

    last = run[-1] if len(run) else None
    found = []
    if last is not None:
        if in_force.kill_switch:
            found.append(notice(KILL_SWITCH, f"Kill switch on: rule = {last.rule}."))
        elif in_force.stochastic and last.rule not in ("stochastic", in_force.rule):
            found.append(notice(RULE, f"Stochastic is on, but rule = {last.rule}: {last.rule_reason}"))
        if last.rule in RULE_TABLE and RULE_TABLE[last.rule].is_reference:
            label = RULE_TABLE[last.rule].label.removeprefix("not lossless: ")
            found.append(notice(NOT_LOSSLESS, f"Rule {last.rule} is not lossless: {label}."))
    if in_force.main_rewind != "correct":
        found.append(
            notice(
                MAIN_REWIND, f"Not lossless, main cache fault on: {_named(in_force.main_rewind)}, so p itself is wrong."
            )
        )
    if in_force.rewind != "correct":
        drift = f" Drift {last.drift}." if last is not None else ""
        found.append(notice(REWIND, f"Rewind fault on: {_named(in_force.rewind)}.{drift}"))
    elif last is not None and last.drift:
        text = f"The draft cache is not where it should be: drift {last.drift}."
        found.append(Notice(text, DRIFT, "Go to first drift", "first_drift"))
    found += [of_models(text, run.header.target, run.header.draft) for text in run.header.notices]
    if run.end is not None and run.end.finish_reason == "error":
        found.append(Notice(f"The run ended by an error: {run.end.notice}", ERROR))
    return found


def of_models(text: str, target: ModelInfo, draft: ModelInfo | None) -> Notice:
    """An engine's sentence; one on whether there is a drafter at all gets the names and sizes of both models."""
    if not text.startswith(_ON_DRAFTING):
        return Notice(text)
    both = f"target {_sized(target)}" + (f", draft {_sized(draft)}" if draft is not None else "")
    return Notice(f"{text} Loaded: {both}.", DRAFTING)


def of_drafting(pair: PairSummary, settings: Settings) -> list[Notice]:
    """Why the next run would speculate nothing, although a pair is loaded."""
    draft = pair.draft if settings.drafter_kind.kind.network == "draft" else None
    if draft is None and settings.drafter_kind.kind.network == "draft":
        return [of_models("No draft model: the next run decodes plainly.", pair.target, None)]
    if settings.num_draft_tokens == 0:
        text = f"k is 0: the next run decodes plainly, without its drafter ({drafting_words(pair, settings)[0]})."
        return [of_models(text, pair.target, draft)]
    return []


def of_prompt(asks_chat: bool, pair: PairSummary) -> list[Notice]:
    """A chat template that was asked for and isn't there."""
    if not asks_chat or pair.chat is not None:
        return []
    return [Notice(f"No chat template: {pair.target.name} has none, so the prompt goes as it stands.", CHAT)]


def _sized(model: ModelInfo) -> str:
    size = millions(model.parameters)
    return f"{model.name} ({size} parameters)" if size else model.name


def pending(settings: Settings) -> list[Notice]:
    """What the next run won't do as it was asked, or does wrongly because it was."""
    found = []
    if settings.kill_switch and settings.stochastic:
        text = "Kill switch on: the next run won't use the stochastic rule, though Stochastic is ticked."
        found.append(_with_cure(KILL_SWITCH, text, settings))
    elif settings.rule in RULE_TABLE and not RULE_TABLE[settings.rule].distribution_preserving:
        text = f"Rule by hand: the next run uses {settings.rule}, which is not lossless."
        found.append(_with_cure(NOT_LOSSLESS, text, settings))
    if settings.main_rewind != "correct":
        text = (
            f"Not lossless, main cache fault on: the next run's {_named(settings.main_rewind)}, so p itself is wrong."
        )
        found.append(_with_cure(MAIN_REWIND, text, settings))
    if settings.rewind != "correct":
        text = f"Rewind fault on: the next run's {_named(settings.rewind)}."
        found.append(_with_cure(REWIND, text, settings))
    return found


def _named(rewind: str) -> str:
    return f"{rewind} {REWIND_TABLE[rewind].title}"


def _with_cure(kind: str, text: str, settings: Settings) -> Notice:
    cure = _CURES[kind]
    if all(getattr(settings, name) == value for name, value in cure.sets.items()):
        return Notice(text, kind)
    return Notice(text, kind, cure.button, cure.act)
