"""Colours, fonts and sizes: the one place that decides how things look, in light and in dark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Colours of one outcome: `fill` for areas and lines, `ink` for glyphs and words, `tint` behind them."""

    fill: str
    ink: str
    tint: str
    glyph: str


@dataclass(frozen=True)
class Palette:
    """The colour tokens of one scheme."""

    dark: bool
    window: str
    base: str
    alternate: str
    button: str
    code: str
    line: str
    grid: str
    text: str
    text2: str
    disabled: str
    accent: str
    on_accent: str
    selection: str
    banner: str
    banner_line: str
    danger: str
    danger_tint: str
    accepted: Outcome
    rejected: Outcome
    recovered: Outcome
    bonus: Outcome
    target_draw: Outcome
    p: str
    q: str
    sum_prod: str
    sum_prod_ink: str
    rolling: str
    band: str


LIGHT = Palette(
    dark=False,
    window="#ECEDEF",
    base="#FFFFFF",
    alternate="#F6F7F8",
    button="#F8F9FA",
    code="#F2F3F5",
    line="#C3C7CD",
    grid="#E3E5E8",
    text="#1B1D20",
    text2="#545A63",
    disabled="#868C95",
    accent="#4A53A6",
    on_accent="#FFFFFF",
    selection="#DFE2F4",
    banner="#FFF0C7",
    banner_line="#D5A100",
    danger="#B3261E",
    danger_tint="#F9E3E1",
    accepted=Outcome("#009E73", "#006B4C", "#DDF1EA", "✓"),
    rejected=Outcome("#D55E00", "#A84300", "#FBE6DA", "✗"),
    recovered=Outcome("#E69F00", "#7A5300", "#FCEFD3", "↻"),
    bonus=Outcome("#0072B2", "#005A8D", "#DCEBF5", "+"),
    target_draw=Outcome("#545A63", "#545A63", "#F2F3F5", "◇"),
    p="#0072B2",
    q="#56B4E9",
    sum_prod="#CC79A7",
    sum_prod_ink="#8C3D6B",
    rolling="#6A717B",
    band="#E4E6EA",
)

DARK = Palette(
    dark=True,
    window="#2B2D31",
    base="#1D1F22",
    alternate="#232528",
    button="#36393E",
    code="#2F3236",
    line="#464A51",
    grid="#303338",
    text="#E6E8EB",
    text2="#A9AFB8",
    disabled="#7C828C",
    accent="#A6AEF2",
    on_accent="#15171C",
    selection="#363B5C",
    banner="#41360F",
    banner_line="#8F7200",
    danger="#FF8C83",
    danger_tint="#45241F",
    accepted=Outcome("#009E73", "#3CC79B", "#16352B", "✓"),
    rejected=Outcome("#D55E00", "#FF9150", "#41271A", "✗"),
    recovered=Outcome("#E69F00", "#F2B53A", "#3D3117", "↻"),
    bonus=Outcome("#2C8FD0", "#6DBAF0", "#162F43", "+"),
    target_draw=Outcome("#A9AFB8", "#A9AFB8", "#2F3236", "◇"),
    p="#2C8FD0",
    q="#9BD3F5",
    sum_prod="#CC79A7",
    sum_prod_ink="#E3A3C7",
    rolling="#A0A7B1",
    band="#33363B",
)
