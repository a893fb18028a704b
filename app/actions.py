"""The table of actions: menus, toolbar, tooltips and the shortcut sheet all come from it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence

from app import icons, theme

MENUS = ("File", "Edit", "View", "Go", "Run", "Analyze", "Window", "Help")


@dataclass(frozen=True)
class ActionSpec:
    """One thing that can be done. `menu` "" keeps it out of the menus; `after` starts a group with a separator.

    `needs` is the name by which `Session.can` is asked whether it is possible. `submenu` groups exclusive choices.
    """

    name: str
    text: str
    menu: str
    about: str
    keys: tuple[str, ...] = ()
    icon: str | None = None
    needs: str | None = None
    checkable: bool = False
    after: bool = False
    submenu: str | None = None


ACTIONS = (
    ActionSpec("choose_models", "Choose Models…", "File", "Load another target and draft", ("Ctrl+O",), needs="load"),
    ActionSpec("load_bundled", "Load Bundled Pair", "File", "Load the pair that comes with the program", needs="load"),
    ActionSpec("load_toy", "Load 6-Token Toy", "File", "Load two tables of fixed logits over six words", needs="load"),
    ActionSpec(
        "open_recording", "Open Recording…", "File", "Look at a recorded session", ("Ctrl+Shift+O",), after=True
    ),
    ActionSpec(
        "save_recording", "Save Recording As…", "File", "Record into a file of your own", ("Ctrl+S",), needs="save"
    ),
    ActionSpec(
        "export",
        "Export…",
        "File",
        "Write the run for other programs, the selected round as a page, or a panel as a picture",
        ("Ctrl+Shift+E",),
        needs="navigate",
    ),
    ActionSpec("close", "Close Window", "File", "End the program", ("Ctrl+W",), after=True),
    ActionSpec("quit", "Quit", "File", "End the program", ("Ctrl+Q",)),
    ActionSpec("edit_prompt", "Edit Prompt…", "Edit", "Write the prompt over several lines", ("Ctrl+E",), needs="edit"),
    ActionSpec("copy_text", "Copy Emitted Text", "Edit", "Copy the run's text, as it is", needs="navigate", after=True),
    ActionSpec("copy_summary", "Copy Summary Line", "Edit", "Copy the one line that sums up the run", needs="navigate"),
    ActionSpec(
        "filter_rounds",
        "Filter Rounds",
        "Edit",
        "Write which rounds the table shows, such as outcome:rejected accepted<2",
        ("Ctrl+F",),
        needs="navigate",
        after=True,
    ),
    ActionSpec(
        "mark_round",
        "Mark Round",
        "Edit",
        "Mark the round under the cursor, or take its mark away",
        ("M",),
        needs="navigate",
        after=True,
    ),
    ActionSpec("note", "Note…", "Edit", "Write a note on the round under the cursor", ("Shift+M",), needs="navigate"),
    ActionSpec(
        "more", "More Settings", "View", "Show penalties, drafter and run settings", ("Ctrl+M",), checkable=True
    ),
    ActionSpec("theme_system", "System", "View", "Light or dark as the system has it", submenu="Theme", after=True),
    ActionSpec("theme_light", "Light", "View", "Dark text on light", submenu="Theme"),
    ActionSpec("theme_dark", "Dark", "View", "Light text on dark", submenu="Theme"),
    ActionSpec("first_round", "First Round", "Go", "Go to the first round", ("Ctrl+Home",), "first", "navigate"),
    ActionSpec("previous_round", "Previous Round", "Go", "Go one round back", ("Ctrl+Left",), "previous", "navigate"),
    ActionSpec("next_round", "Next Round", "Go", "Go one round on", ("Ctrl+Right",), "next", "navigate"),
    ActionSpec("last_round", "Last Round", "Go", "Go to the newest round", ("Ctrl+End",), "last", "navigate"),
    ActionSpec("go_to_round", "Go to Round…", "Go", "Go to a round by its number", ("Ctrl+G",), needs="navigate"),
    ActionSpec(
        "back", "Back", "Go", "Go back to where the cursor was before", ("Alt+Left",), needs="navigate", after=True
    ),
    ActionSpec("forward", "Forward", "Go", "Go where Back came from", ("Alt+Right",), needs="navigate"),
    ActionSpec(
        "previous_rejection",
        "Previous Rejection",
        "Go",
        "Go back to the last round that rejected a draft",
        (",",),
        "previous-rejection",
        "navigate",
        after=True,
    ),
    ActionSpec(
        "next_rejection",
        "Next Rejection",
        "Go",
        "Go on to the next round that rejected a draft",
        (".",),
        "next-rejection",
        "navigate",
    ),
    ActionSpec(
        "previous_mark",
        "Previous Mark",
        "Go",
        "Go back to the last marked round",
        ("Ctrl+Up",),
        needs="navigate",
    ),
    ActionSpec("next_mark", "Next Mark", "Go", "Go on to the next marked round", ("Ctrl+Down",), needs="navigate"),
    ActionSpec(
        "previous_drift",
        "Previous Drift",
        "Go",
        "Go back to the last round that changed the drift to something other than 0",
        ("Ctrl+Shift+Left",),
        needs="navigate",
    ),
    ActionSpec(
        "next_drift",
        "Next Drift",
        "Go",
        "Go on to the next round that changed the drift to something other than 0",
        ("Ctrl+Shift+Right",),
        needs="navigate",
    ),
    ActionSpec(
        "first_drift",
        "First Drift",
        "Go",
        "Go to the first round after which the draft cache was not where it should be",
        needs="navigate",
    ),
    ActionSpec(
        "previous_position",
        "Previous Position",
        "Go",
        "Go one position back, into the round before at an end",
        ("Shift+F11", "Shift+F10"),
        needs="navigate",
        after=True,
    ),
    ActionSpec(
        "next_position",
        "Next Position",
        "Go",
        "Go one position on, into the next round at an end",
        ("F11",),
        "position",
        "navigate",
    ),
    ActionSpec(
        "live",
        "Live",
        "Go",
        "Keep the cursor on the newest round",
        ("End",),
        "live",
        "navigate",
        checkable=True,
        after=True,
    ),
    ActionSpec("run", "Run", "Run", "Run the prompt, or go on after a pause", ("F5",), "play", "run"),
    ActionSpec("pause", "Pause", "Run", "Pause at the end of this round", ("F6",), "pause", "pause"),
    ActionSpec("stop", "Stop", "Run", "End the run after this round", ("Shift+F5",), "stop", "stop"),
    ActionSpec("step", "Step Round", "Run", "Run one round, then pause", ("F10",), "step", "step"),
    ActionSpec(
        "fork",
        "Fork Before This Round…",
        "Run",
        "Go on from the round before the selected one, with other settings or another outcome",
        ("Ctrl+Shift+B",),
        needs="fork",
    ),
    ActionSpec(
        "compare_runs",
        "Compare…",
        "Run",
        "Lay two runs side by side: where their tokens part and why, and all counters with intervals",
        ("Ctrl+Shift+R",),
    ),
    ActionSpec(
        "run_to_drift",
        "Run to Next Drift",
        "Run",
        "Go on, or start, and pause right behind the round that changes the draft cache's drift",
        ("Ctrl+F10",),
        "to-drift",
        "run_to_drift",
    ),
    ActionSpec(
        "run_to_failure",
        "Run to Next Invariant Failure",
        "Run",
        "Go on, or start, and pause right behind the round that breaks an invariant",
        ("Ctrl+F11",),
        "to-failure",
        "run_to",
    ),
    ActionSpec(
        "toggle_breakpoint",
        "Toggle Breakpoint on Round",
        "Run",
        "Have the next run pause behind the round with the number of the one under the cursor, or no longer",
        ("F9",),
        needs="navigate",
        after=True,
    ),
    ActionSpec(
        "new_breakpoint",
        "New Breakpoint…",
        "Run",
        "Pause behind rounds with a recovered token, a token, a probability and others",
        ("Shift+F9",),
    ),
    ActionSpec(
        "check_contents",
        "Check Cache Contents Now",
        "Run",
        "Compare the next-token logits of both caches with those of fresh ones; costs forward passes of its own",
        needs="check",
    ),
    ActionSpec(
        "stochastic",
        "Stochastic",
        "Run",
        "Accept by modified rejection sampling; holds from the next round on",
        needs="change",
        checkable=True,
        after=True,
    ),
    ActionSpec(
        "kill_switch",
        "Kill switch",
        "Run",
        "Back to the default rule at every temperature, whatever Stochastic says; holds from the next round on",
        needs="change",
        checkable=True,
    ),
    ActionSpec(
        "diagnostics",
        "Diagnostics",
        "Run",
        "Compute the closed forms Σ min(p, q) and Σ p·q at every tested position; holds from the next round on",
        needs="change",
        checkable=True,
    ),
    ActionSpec(
        "new_seed",
        "New Seed",
        "Run",
        "Draw a seed and write it into the field",
        ("Ctrl+D",),
        "dice",
        "edit",
        after=True,
    ),
    ActionSpec(
        "chi_square_lab",
        "Chi-Square Lab…",
        "Analyze",
        "Put every rule, right and wrong, to a goodness-of-fit test on the 6-token toy",
        ("Ctrl+Shift+C",),
    ),
    ActionSpec(
        "try_test",
        "Try Another u, Temperature or Rule",
        "Analyze",
        "The test under the cursor again, with another accept draw, temperature or rule; alters no record",
        ("Ctrl+Shift+T",),
        needs="navigate",
    ),
    ActionSpec(
        "fault_lab",
        "Fault Lab",
        "Analyze",
        "Switch faults on, see which instrument trips, and compare with the cure",
        ("Ctrl+Shift+F",),
        needs="navigate",
    ),
    ActionSpec(
        "workspace_inspect",
        "Inspect",
        "Window",
        "What was drafted, what was kept, and why",
        after=True,
        submenu="Workspace",
    ),
    ActionSpec(
        "workspace_debug",
        "Debug",
        "Window",
        "What both caches hold, what they should, and where it first went wrong",
        submenu="Workspace",
    ),
    ActionSpec("messages", "Show Log", "Window", "What the program has said so far", ("Ctrl+L",)),
    ActionSpec("reset_layout", "Reset Layout", "Window", "Put every dock back in its place"),
    ActionSpec("help", "Help", "Help", "How to read the window, and what the engine does", ("F1",)),
    ActionSpec("shortcuts", "Keyboard Shortcuts", "Help", "Every key in one list", ("?",)),
    ActionSpec("about", "About Draftscope", "Help", "Version and libraries", after=True),
)

BY_NAME = {spec.name: spec for spec in ACTIONS}


def key_text(spec: ActionSpec) -> str:
    """The first shortcut as this platform writes it, "" without one."""
    return QKeySequence(spec.keys[0]).toString(QKeySequence.SequenceFormat.NativeText) if spec.keys else ""


def tooltip(spec: ActionSpec, reason: str | None = None) -> str:
    """What it does with its key; where it can't be done, why not. The table's and the session's own words only."""
    keys = key_text(spec)
    text = f"{spec.about} ({keys})" if keys else spec.about
    return text if reason is None else f"{text}\nNot now: {reason}"


def make_actions(parent: QObject) -> dict[str, QAction]:
    """Every action of the table, by name; nothing is connected yet."""
    made = {}
    for spec in ACTIONS:
        action = QAction(spec.text, parent)
        action.setObjectName(spec.name)
        action.setShortcuts([QKeySequence(keys) for keys in spec.keys])
        action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        action.setCheckable(spec.checkable or spec.submenu is not None)
        action.setToolTip(tooltip(spec))
        action.setStatusTip("")
        action.setMenuRole(_role(spec.name))
        made[spec.name] = action
    restyle(made)
    return made


def _role(name: str) -> QAction.MenuRole:
    roles = {"quit": QAction.MenuRole.QuitRole, "about": QAction.MenuRole.AboutRole}
    # Without this macOS guesses by the text and moves entries such as Settings into its own menu.
    return roles.get(name, QAction.MenuRole.NoRole)


def restyle(actions: dict[str, QAction]) -> None:
    """Draw the icons in the palette in use."""
    for name, action in actions.items():
        wanted = BY_NAME[name].icon
        if wanted is not None:
            action.setIcon(icons.icon(wanted, theme.current().text))
            action.setIconVisibleInMenu(False)


def set_possible(action: QAction, reason: str | None) -> None:
    """Enable the action (None), or disable it and say in the tooltip why."""
    action.setEnabled(reason is None)
    action.setToolTip(tooltip(BY_NAME[action.objectName()], reason))
