"""From parsed options to what the engine is asked: settings, switches and the prompt. Imports neither MLX nor Qt."""

from __future__ import annotations

import argparse
import dataclasses
import reprlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.drafter_kinds import DrafterError, parse_drafter
from engine.settings import RULE_CHOICES, SamplerSettings, Settings
from engine.switches import diagnostics_from_environment, stochastic_from_environment

DEFAULT_PROMPT = "It is a truth universally acknowledged, that"
TOY_PROMPT = "the cat sat on"

SAMPLER_OPTIONS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "chain_order",
    "repetition_penalty",
    "repetition_window",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_window",
    "frequency_penalty",
    "frequency_window",
    "presence_penalty",
    "presence_window",
    "xtc_probability",
    "xtc_threshold",
)
_DRAFT_OPTIONS = ("temperature", "top_k", "top_p", "min_p")
_SPECULATION_OPTIONS = (
    "num_draft_tokens",
    "max_tokens",
    "seed",
    "rewind",
    "main_rewind",
    "prefill_chunk",
    "kv_bits",
    "kv_group_size",
    "kv_start",
)


class UserError(Exception):
    """What the user can mend; the text is all there is to say."""


class RunError(Exception):
    """A run that a comparison needs has failed; the text says how."""


def sampler_settings(options: argparse.Namespace) -> SamplerSettings:
    """The target's sampler. Raises SettingsError."""
    given = {name: value for name in SAMPLER_OPTIONS if (value := getattr(options, name, None)) is not None}
    return SamplerSettings(
        **given, logit_bias=logit_bias(options.logit_bias), penalize_prompt=not options.no_penalize_prompt
    )


def draft_sampler_settings(options: argparse.Namespace, sampler: SamplerSettings) -> SamplerSettings | None:
    """The drafter's sampler: the target's with what was given for the draft; None if nothing was."""
    given = {name: value for name in _DRAFT_OPTIONS if (value := getattr(options, f"draft_{name}", None)) is not None}
    return dataclasses.replace(sampler, **given) if given else None


def logit_bias(pairs: list[str]) -> tuple[tuple[int, float], ...]:
    """`ID:VALUE` pairs. Raises UserError for another form or an id given twice."""
    biases: dict[int, float] = {}
    for pair in pairs:
        token, _, bias = pair.partition(":")
        try:
            number, value = int(token), float(bias)
        except ValueError:
            raise UserError(f"--logit-bias: expected ID:VALUE, such as 42:-5, got {pair!r}") from None
        if number in biases:
            raise UserError(f"--logit-bias: token id {number} is given twice")
        biases[number] = value
    return tuple(biases.items())


def switches(options: argparse.Namespace) -> dict[str, bool]:
    """Where the switches stand: the environment sets the start, options override it. Raises SettingsError."""
    environment = stochastic_from_environment()
    diagnostics = diagnostics_from_environment()
    stochastic = environment is True if options.stochastic is None else options.stochastic
    kill_switch = options.kill_switch
    if kill_switch is None:
        kill_switch = environment is False and not options.stochastic
    return {
        "stochastic": stochastic,
        "kill_switch": kill_switch,
        "diagnostics": diagnostics if options.diagnostics is None else options.diagnostics,
    }


def drafter_kind(text: str) -> str:
    """The drafter asked for as KIND[:ARGUMENT][,PICK]. Raises UserError for one that isn't built here."""
    try:
        parse_drafter(text)
    except DrafterError as error:
        raise UserError(f"--drafter: {error}") from error
    return text.strip()


def rule_choice(text: str) -> str:
    """The rule asked for by hand, or auto. Raises UserError for one that can't be asked for."""
    if text in RULE_CHOICES:
        return text
    choices = f"choose one of {', '.join(RULE_CHOICES)}"
    if text == "sampler-match-no-proposal-distribution":
        raise UserError(f"--rule: {text} can't be asked for: --stochastic --drafter no-q leads to it; {choices}")
    raise UserError(f"--rule: {text!r} is no rule known here; {choices}")


def run_settings(options: argparse.Namespace) -> Settings:
    """Everything that `run` was asked. Raises SettingsError or UserError."""
    if options.rounds is not None and not options.json:
        raise UserError("--rounds goes with --json: the streamed text has no place for them")
    if options.content_check < 0:
        raise UserError(f"--content-check: expected a number of rounds, or 0 for never, got {options.content_check}")
    if options.full_vocabulary and options.record is None and options.rounds != "full":
        raise UserError("--full-vocabulary goes with --record, or with --json --rounds full: nothing else keeps it")
    sampler = sampler_settings(options)
    fields: dict[str, Any] = {
        name: value for name in _SPECULATION_OPTIONS if (value := getattr(options, name)) is not None
    }
    switched: dict[str, Any] = {**switches(options)}
    return Settings(
        sampler=sampler,
        draft_sampler=draft_sampler_settings(options, sampler),
        drafter=drafter_kind(options.drafter),
        rule=rule_choice(options.rule),
        stop=tuple(options.stop),
        # Nothing but p and q needs the observation: a run that shows neither does without.
        record=options.rounds is not None or options.record is not None or switched["diagnostics"],
        full_vocabulary=options.full_vocabulary,
        **fields,
        **switched,
    )


def prompt_of(options: argparse.Namespace) -> str | list[int]:
    """The prompt as text or token ids; without one the pair's own. Raises UserError."""
    if options.prompt_ids is not None:
        return _ids(options.prompt_ids)
    prompt = options.prompt if options.prompt_file is None else _read(options.prompt_file)
    if prompt is None:
        return TOY_PROMPT if options.toy else DEFAULT_PROMPT
    problem = prompt_problem(prompt)
    if problem is not None:
        raise UserError(problem)
    return prompt


def check_chat(options: argparse.Namespace) -> None:
    """Raise UserError where --chat or --system can't be obeyed."""
    if options.system is not None and not options.chat:
        raise UserError("--system goes with --chat: without a chat template nobody says it")
    if options.chat and options.prompt_ids is not None:
        raise UserError("--chat needs a prompt of text, --prompt-ids are taken as they are")


def in_chat(
    chat: Callable[[Sequence[dict[str, str]]], str] | None, prompt: str | list[int], options: argparse.Namespace
) -> str | list[int]:
    """The prompt within the target's chat template where --chat asks for it. Raises UserError."""
    if not options.chat or not isinstance(prompt, str):
        return prompt
    if chat is None:
        raise UserError("--chat: the target's tokenizer has no chat template: leave it out")
    try:
        return chat_prompt(chat, prompt, options.system or "")
    except ValueError as error:
        raise UserError(f"--chat: {error}") from error


def chat_prompt(chat: Callable[[Sequence[dict[str, str]]], str], prompt: str, system: str) -> str:
    """What a chat template makes of a prompt, with what the system says where it says anything. Raises ValueError."""
    said = [{"role": "system", "content": system}] if system.strip() else []
    return chat([*said, {"role": "user", "content": prompt}])


def prompt_problem(prompt: str) -> str | None:
    """Why nothing can go on from this text, before any model sees it; None if nothing speaks against it."""
    if not prompt:
        return "the prompt must be non-empty: expected some text, got an empty one"
    if not prompt.strip():
        return f"the prompt is blank: expected text that isn't only white space, got {reprlib.repr(prompt)}"
    return None


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"--prompt-ids: expected token ids, such as 3,5,7, got {text!r}") from None


def _read(name: str) -> str:
    """A UTF-8 file, or standard input for `-`."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"--prompt-file: {name} can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"--prompt-file: expected UTF-8 text, but {name} has another byte at {error.start}: convert it"
        ) from error


def model_folders(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """(target, draft) as given; a None target stands for the bundled one. Raises UserError."""
    given: dict[str, Any] = {"--target": options.target, "--draft": options.draft}
    for name, value in given.items():
        if value is not None and options.toy:
            raise UserError(f"{name} and --toy can't both be: choose one pair")
        if value is not None and not value.strip():
            raise UserError(f"{name}: expected a model folder, got an empty name")
    return options.target, options.draft
