"""What the banner says, and which button each line gets."""

from __future__ import annotations

from app.panels.banner import Notice
from app.session import Session
from engine.settings import Settings

KILL_OFF = Notice("", "Turn it off", "kill_switch_off")
REWIND_CORRECT = Notice("", "Set to correct", "rewind_correct")
RULE_AUTO = Notice("", "Set rule to auto", "rule_auto")
DRIFT = Notice("", "Go to first drift", "first_drift")

_RUNNING = ("running", "paused", "stopping")


def notices(session: Session) -> list[Notice]:
    """One for each sentence of the session's banner; then what the next run won't do as it was asked."""
    settings = session.settings
    found = [_with_button(sentence, settings) for sentence in session.banner]
    if session.state not in _RUNNING:
        found += [n for n in _pending(settings) if all(n.act != other.act for other in found)]
    return found


def _with_button(sentence: str, settings: Settings) -> Notice:
    """The button mends what the sentence tells of, as long as it is so in the settings."""
    if sentence.startswith("Kill switch on") and settings.kill_switch:
        template = KILL_OFF
    elif sentence.startswith("Rewind fault on") and settings.rewind != "correct":
        template = REWIND_CORRECT
    elif sentence.startswith("The draft cache is not where it should be"):
        template = DRIFT
    elif sentence.startswith("Stochastic is on, but") and settings.rule != "auto":
        template = RULE_AUTO
    else:
        return Notice(sentence)
    return Notice(sentence, template.button, template.act)


def _pending(settings: Settings) -> list[Notice]:
    found = []
    if settings.kill_switch and settings.stochastic:
        text = "Kill switch on: the next run won't use the stochastic rule, though Stochastic is ticked."
        found.append(Notice(text, KILL_OFF.button, KILL_OFF.act))
    if settings.rewind != "correct":
        text = f"Rewind fault on: the next run trims the draft cache wrongly ({settings.rewind})."
        found.append(Notice(text, REWIND_CORRECT.button, REWIND_CORRECT.act))
    return found
