"""The dialog that chooses models: what it shows of them, what it lets through, and what it never does by itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_files import KINDS, write_model
from model_folders import byte_level_tokenizer, write_folder
from pytestqt.qtbot import QtBot

from app.dialogs.drafter_choice import MODEL, NONE
from app.dialogs.model_chooser import ModelChooser
from app.dialogs.model_sheet import BUSY
from app.model_choice import TOY, Chosen
from engine import hub
from engine.hub import DownloadPlan
from engine.model_files import LoadCancelledError, LoadError
from tests.gui.test_dropped import drop, files

Opener = Callable[..., ModelChooser]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two folders of one tokenizer, one of another, and two GGUF files, one with types that must be unpacked."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "target": write_folder(folder / "target", num_hidden_layers=4),
        "draft": write_folder(folder / "draft", vocab_size=300),
        "short": write_folder(folder / "short", max_position_embeddings=100),
        "other": write_folder(folder / "other", byte_level_tokenizer((" lead", " thy"))),
        "gguf": write_model(folder / "packed.gguf", KINDS["llama"], "Q4_1"),
        "old": write_model(folder / "old.gguf", KINDS["llama"], "Q5_0"),
    }


@pytest.fixture
def open_chooser(qtbot: QtBot) -> Iterator[Opener]:
    """A dialog that has looked at what it was opened with."""
    dialogs: list[ModelChooser] = []

    def opened(target: object = "bundled", draft: object = None, **options: Any) -> ModelChooser:
        dialog = ModelChooser(Chosen(str(target), None if draft is None else str(draft)), on_cpu=True, **options)
        qtbot.addWidget(dialog)
        dialogs.append(dialog)
        dialog.show()
        settle(qtbot, dialog)
        return dialog

    yield opened
    for dialog in dialogs:
        dialog.close()


def settle(qtbot: QtBot, dialog: ModelChooser) -> None:
    """Wait until it has nothing more to look at."""
    waits = dialog._waits.values()
    qtbot.waitUntil(
        lambda: BUSY not in dialog.said.text() and not any(timer.isActive() for timer in waits), timeout=10_000
    )


def choose(dialog: ModelChooser, kind: str) -> None:
    dialog.drafter.kind.setCurrentIndex(dialog.drafter.kind.findData(kind))


def write(qtbot: QtBot, dialog: ModelChooser, target: object) -> None:
    dialog.target.where.setText(str(target))
    settle(qtbot, dialog)


def test_the_bundled_pair_is_told_and_lets_through(open_chooser: Opener) -> None:
    dialog = open_chooser("bundled", "bundled")
    assert dialog.ok.isEnabled()
    assert dialog.said.text().count("✓") == 2
    assert dialog.sheet.text("parameters", 1) == "4,262,144"
    assert dialog.sheet.text("parameters", 2) == "614,880"
    assert dialog.chosen() == Chosen("bundled", "bundled", "sample")


def test_nothing_gets_through_before_it_was_looked_at(qtbot: QtBot, open_chooser: Opener) -> None:
    dialog = open_chooser("bundled", drafter="self")
    assert dialog.ok.isEnabled()
    dialog.target.where.setText("/nowhere")
    assert not dialog.ok.isEnabled(), "what stood there before is no answer"
    settle(qtbot, dialog)
    assert "no such folder" in dialog.said.text()
    assert not dialog.ok.isEnabled()
    assert dialog.sheet.text("parameters", 1) == "-"


def test_a_lone_file_with_a_drafter_made_of_it(open_chooser: Opener, models: dict[str, Path]) -> None:
    dialog = open_chooser(models["gguf"], drafter="requantized:4")
    assert dialog.ok.isEnabled()
    assert not dialog.draft.isVisible()
    assert "in 4 bits" in dialog.cost.text()
    assert dialog.sheet.text("quantization", 1) == "Q4_1"
    assert dialog.sheet.text("quantization", 2) == "4-bit, groups of 32"
    assert dialog.sheet.text("size on disk", 2) == "nothing"
    assert dialog.chosen() == Chosen(str(models["gguf"]), None, "requantized:4")


def test_every_drafter_can_be_chosen_with_its_argument(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path]
) -> None:
    dialog = open_chooser(models["target"], models["draft"], drafter="no-q")
    assert dialog.chosen().drafter == "no-q", "how the draft model drafts stays as it was"
    choose(dialog, "dropped")
    assert dialog.drafter.argument.text() == "2-2"
    assert "3 of 4 layers" in dialog.cost.text()
    dialog.drafter.argument.setText("1-9")
    assert "from 0 to 3" in dialog.said.text()
    assert not dialog.ok.isEnabled()
    dialog.drafter.argument.setText("nonsense")
    assert "dropped" in dialog.said.text()
    assert not dialog.ok.isEnabled()
    for kind, text in (("prompt-lookup", "prompt-lookup:3"), ("self", "self"), ("requantized", "requantized:4")):
        choose(dialog, kind)
        assert dialog.ok.isEnabled(), dialog.said.text()
        assert dialog.chosen() == Chosen(str(models["target"]), None, text)
    choose(dialog, NONE)
    assert dialog.chosen() == Chosen(str(models["target"]), None, "no-q")
    assert dialog.sheet.text("layers", 2) == "-"
    choose(dialog, MODEL)
    settle(qtbot, dialog)
    assert dialog.chosen() == Chosen(str(models["target"]), str(models["draft"]), "no-q")


def test_two_tokenizers_are_refused_before_loading(open_chooser: Opener, models: dict[str, Path]) -> None:
    dialog = open_chooser(models["target"], models["other"])
    assert "'Ġthe' in the target and 'Ġth" in dialog.said.text()
    assert not dialog.ok.isEnabled()


def test_padded_logits_are_none_of_it(open_chooser: Opener, models: dict[str, Path]) -> None:
    dialog = open_chooser(models["target"], models["draft"])
    assert dialog.ok.isEnabled()
    assert "and 300 wide" in dialog.said.text()
    assert "context" not in dialog.said.text()
    short = open_chooser(models["target"], models["short"])
    assert "context, 100 tokens, is shorter than the target's, 512" in short.said.text()
    assert short.ok.isEnabled()
    itself = open_chooser(models["target"], models["target"])
    assert "the same model" in itself.said.text()


def test_what_would_not_fit_is_confirmed_first(open_chooser: Opener, models: dict[str, Path]) -> None:
    dialog = open_chooser(models["target"], drafter="self", free_bytes=2**16)
    assert "would not fit" in dialog.said.text()
    assert not dialog.ok.isEnabled()
    assert dialog.large.isVisible()
    assert not dialog.chosen().allow_large
    dialog.large.setChecked(True)
    assert dialog.ok.isEnabled()
    assert dialog.chosen().allow_large
    roomy = open_chooser(models["target"], drafter="self")
    assert not roomy.large.isVisible()


def test_types_that_must_be_unpacked_are_allowed_first(open_chooser: Opener, models: dict[str, Path]) -> None:
    dialog = open_chooser(models["old"], drafter="self")
    assert "Q5_0" in dialog.said.text()
    assert not dialog.ok.isEnabled()
    dialog.unpack.setChecked(True)
    assert dialog.ok.isEnabled()
    assert dialog.chosen() == Chosen(str(models["old"]), None, "self", unpack=True)


def test_the_toy_brings_its_own_draft(open_chooser: Opener) -> None:
    dialog = open_chooser(TOY, TOY)
    assert dialog.ok.isEnabled()
    assert not dialog.draft.isVisible()
    assert dialog.chosen() == Chosen(TOY, TOY, "sample")
    choose(dialog, "prompt-lookup")
    assert dialog.chosen() == Chosen(TOY, TOY, "prompt-lookup:3")


def test_addresses_and_homes_are_made_whole(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R123."""
    monkeypatch.setenv("HOME", str(models["target"].parent))
    dialog = open_chooser("bundled", drafter="self")
    for text in (models["target"].as_uri(), "~/target", f'"{models["target"]}"'):
        write(qtbot, dialog, text)
        assert dialog.ok.isEnabled(), dialog.said.text()
        assert dialog.chosen().target == str(models["target"])
    write(qtbot, dialog, models["target"] / "config.json")
    assert "is a file" in dialog.said.text()


# What isn't here.


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def put(cache: Path, hub_id: str, folder: Path) -> Path:
    place = cache / ("models--" + hub_id.replace("/", "--")) / "snapshots" / "aaa"
    shutil.copytree(folder, place)
    return place


PLAN = DownloadPlan("owner/name", "aaa", (("config.json", 1000), ("model.safetensors", 3 * 2**20)), 2 * 2**20)


def test_an_id_is_fetched_only_after_its_size_was_told(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    go: list[bool] = []

    def plan(hub_id: str) -> DownloadPlan:
        asked.append("size")
        return PLAN

    def fetch(hub_id: str, progress: Callable[[str, int, int], bool]) -> Path:
        asked.append("files")
        while not go:
            progress("Downloading owner/name (MiB)", 1, 3)
            time.sleep(0.01)
        return put(cache, hub_id, models["target"])

    monkeypatch.setattr(hub, "download_plan", plan)
    monkeypatch.setattr(hub, "download_model", fetch)
    dialog = open_chooser("owner/name", drafter="self")
    strip = dialog.download
    assert strip.isVisible()
    assert not dialog.ok.isEnabled()
    qtbot.wait(50)
    assert asked == [], "nothing is asked of the network before a button is pressed"
    strip.button.click()
    qtbot.waitUntil(lambda: "2 files, 3 MiB, of which 1 MiB are here already" in strip.said.text(), timeout=5000)
    assert asked == ["size"]
    assert strip.button.text() == "Download 2 MiB"
    strip.button.click()
    qtbot.waitUntil(lambda: strip.bar.text() == "1 of 3 MiB", timeout=5000)
    assert strip.bar.isVisible()
    go.append(True)
    qtbot.waitUntil(dialog.ok.isEnabled, timeout=5000)
    assert not strip.isVisible()
    assert dialog.chosen() == Chosen("owner/name", None, "self")


def test_a_download_can_be_cancelled_and_a_failure_is_told(
    qtbot: QtBot, open_chooser: Opener, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def fetch(hub_id: str, progress: Callable[[str, int, int], bool]) -> Path:
        while not progress("Downloading", 1, 3):
            time.sleep(0.01)
        ended.append("cancelled")
        raise LoadCancelledError("Loading was cancelled.")

    def no_plan(hub_id: str) -> DownloadPlan:
        raise LoadError("owner/name can't be looked up (no network).")

    monkeypatch.setattr(hub, "download_plan", no_plan)
    monkeypatch.setattr(hub, "download_model", fetch)
    dialog = open_chooser("owner/name", drafter="self")
    strip = dialog.download
    strip.button.click()
    qtbot.waitUntil(lambda: "no network" in strip.said.text(), timeout=5000)
    monkeypatch.setattr(hub, "download_plan", lambda hub_id: PLAN)
    strip.button.click()
    qtbot.waitUntil(lambda: strip.button.text().startswith("Download"), timeout=5000)
    strip.button.click()
    qtbot.waitUntil(lambda: strip.bar.text() == "1 of 3 MiB", timeout=5000)
    strip.button.click()
    assert "Cancelled" in strip.said.text()
    assert not strip.bar.isVisible()
    qtbot.waitUntil(lambda: ended == ["cancelled"], timeout=5000)
    assert not dialog.ok.isEnabled()


def test_closing_the_dialog_ends_a_download(
    qtbot: QtBot, open_chooser: Opener, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def fetch(hub_id: str, progress: Callable[[str, int, int], bool]) -> Path:
        while not progress("Downloading", 1, 3):
            time.sleep(0.01)
        ended.append("cancelled")
        return cache

    monkeypatch.setattr(hub, "download_plan", lambda hub_id: PLAN)
    monkeypatch.setattr(hub, "download_model", fetch)
    dialog = open_chooser("owner/name", drafter="self")
    dialog.download.button.click()
    qtbot.waitUntil(lambda: dialog.download.button.text().startswith("Download"), timeout=5000)
    dialog.download.button.click()
    dialog.reject()
    qtbot.waitUntil(lambda: ended == ["cancelled"], timeout=5000)


def test_what_lies_in_the_cache_is_listed_and_used(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path], cache: Path
) -> None:
    put(cache, "owner/name", models["target"])
    (cache / "models--owner--broken" / "snapshots" / "aaa").mkdir(parents=True)
    (cache / "models--owner--broken" / "snapshots" / "aaa" / "model.safetensors").write_bytes(b"x")
    dialog = open_chooser("bundled", drafter="self")
    qtbot.waitUntil(lambda: dialog.target.count() == 4, timeout=5000)
    lines = [dialog.target.itemText(index) for index in range(4)]
    assert lines[2] == "owner/broken: can't be loaded"
    assert lines[3].startswith("owner/name: llama, ")
    assert [dialog.draft.itemData(index) for index in range(3)] == ["bundled", "owner/broken", "owner/name"]
    dialog.target.activated.emit(3)
    assert dialog.target.where.text() == "owner/name"
    settle(qtbot, dialog)
    assert dialog.chosen() == Chosen("owner/name", None, "self")
    assert dialog.ok.isEnabled()
    # A download that was cancelled leaves a folder that can't be loaded: it can be fetched again.
    dialog.target.activated.emit(2)
    settle(qtbot, dialog)
    assert dialog.download.isVisible()


# Pairs used before, and what is dropped.


def test_a_pair_used_before_comes_back_and_can_be_forgotten(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path]
) -> None:
    recent = [Chosen(str(models["gguf"]), None, "dropped:1-1"), Chosen(str(models["target"]), str(models["draft"]))]
    dialog = open_chooser("bundled", "bundled", recent=recent)
    assert [dialog.recent.itemText(index) for index in range(2)] == ["packed, dropped:1-1", "target, draft"]
    assert not dialog.remove.isEnabled()
    for index in (0, 1):
        dialog.recent.setCurrentIndex(index)
        dialog.recent.activated.emit(index)
        settle(qtbot, dialog)
        chosen = dialog.chosen()
        assert (chosen.target, chosen.draft) == (recent[index].target, recent[index].draft)
        assert chosen.drafter == (recent[index].drafter or "sample")
    with qtbot.waitSignal(dialog.recent_changed) as changed:
        dialog.remove.click()
    assert changed.args[0] == recent[:1]
    assert dialog.recent.count() == 1
    assert not open_chooser().recent.isVisible(), "an empty list takes no room"


def test_a_model_is_dropped_onto_a_field_or_anywhere(
    qtbot: QtBot, open_chooser: Opener, models: dict[str, Path], tmp_path: Path
) -> None:
    dialog = open_chooser("bundled", "bundled")
    drop(dialog.draft.where, files(models["draft"]))
    assert dialog.draft.where.text() == str(models["draft"])
    drop(dialog.target, files(models["gguf"]))
    assert dialog.target.where.text() == str(models["gguf"])
    drop(dialog, files(models["target"]))
    assert dialog.target.where.text() == str(models["target"])
    settle(qtbot, dialog)
    assert dialog.ok.isEnabled()
    for wrong in (tmp_path / "run.draftscope", tmp_path / "notes.txt"):
        wrong.write_bytes(b"")
        drop(dialog.target.where, files(wrong))
        assert dialog.target.where.text() == str(models["target"])
        assert "▲" in dialog.said.text()
    drop(dialog, files(models["draft"], models["target"]))
    assert "2 things were dropped at once" in dialog.said.text()
