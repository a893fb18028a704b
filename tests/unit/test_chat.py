"""Chat templates on the command line: the prompt that is encoded, and what can't be obeyed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from model_folders import byte_level_tokenizer, edit_json, write_folder

from app.cli import main, run_parser
from app.headless.request import UserError, check_chat, in_chat
from engine.models import load_model

TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"


def template(messages: Sequence[dict[str, str]]) -> str:
    return "".join(f"[{message['role']}]{message['content']}" for message in messages)


def options(*given: str) -> argparse.Namespace:
    return run_parser().parse_args(list(given))


def test_the_prompt_goes_into_the_template_only_if_asked() -> None:
    assert in_chat(template, "hi", options()) == "hi"
    assert in_chat(None, "hi", options()) == "hi"
    assert in_chat(template, "hi", options("--chat")) == "[user]hi"
    assert in_chat(template, "hi", options("--chat", "--system", "Be brief.")) == "[system]Be brief.[user]hi"
    assert in_chat(template, "hi", options("--chat", "--system", " ")) == "[user]hi"


def test_what_cannot_be_obeyed_is_refused() -> None:
    with pytest.raises(UserError, match="no chat template"):
        in_chat(None, "hi", options("--chat"))
    with pytest.raises(UserError, match="--system goes with --chat"):
        check_chat(options("--system", "x"))
    with pytest.raises(UserError, match="--prompt-ids"):
        check_chat(options("--chat", "--prompt-ids", "1,2"))

    def broken(messages: Sequence[dict[str, str]]) -> str:
        raise ValueError("The model's chat template can't be applied: no system allowed")

    with pytest.raises(UserError, match="no system allowed"):
        in_chat(broken, "hi", options("--chat"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer that puts <s> before every text, with a template that puts it there as well."""
    made = write_folder(tmp_path / "chatty", byte_level_tokenizer(bos=True))
    edit_json(made / "tokenizer_config.json", bos_token="<s>", chat_template=TEMPLATE)
    return made


def test_a_template_with_a_bos_of_its_own_leads_to_one_bos(folder: Path) -> None:
    model = load_model(folder)
    text = in_chat(model.chat, "hi", options("--chat"))
    assert text == "<s>[user]hi[assistant]"
    ids = model.encode(text)
    start = next(token for token, name in model.vocabulary.names.items() if name == "<s>")
    assert ids[0] == start
    assert ids.count(start) == 1
    assert model.vocabulary.decode(ids) == "[user]hi[assistant]"


def test_the_command_encodes_the_whole_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--target", str(folder), "--prompt", "hi", "-n", "2", "--json"]
    assert main([*run, "--chat", "--system", "Be brief."]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["prompt"] == "<s>[system]Be brief.[user]hi[assistant]"
    assert main([*run, "--system", "Be brief."]) == 2
    assert "--system goes with --chat" in capsys.readouterr().err
