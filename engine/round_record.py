"""The parts of a round's record, made of what came back from its sync; and the log lines of what is new in it."""

from __future__ import annotations

import logging
from typing import Any

from engine.acceptance import Rule
from engine.diagnostics import Host, value_at
from engine.emission import fates_of, source_of
from engine.rounds import Coordinates, Distributions, Draft, Emitted, Round

log = logging.getLogger("draftscope.engine")
_logged: set[str] = set()  # rules and sources that this process has logged: each only once
_FIRSTS = {
    "accepted": "first draft accepted",
    "recovered": "first token drawn from a residual",
    "degenerate-fallback": "first degenerate residual fallback: the residual was empty, drew from p",
}


def drafts_of(
    drafted: list[int], count: int, emitted: int, host: Host, seen: tuple[Distributions, ...]
) -> tuple[Draft, ...]:
    """The drafted tokens with their tests; what was ignored met none."""
    forms = ("sum_min", "sum_prod", "p_argmax_q", "q_argmax_p", "p_entropy", "q_entropy", "block_p", "block_h")
    found = []
    for i, (token, fate) in enumerate(zip(drafted, fates_of(len(drafted), count, emitted), strict=True)):
        values: dict[str, Any] = {n: float(host[n][i]) for n in forms if n in host}
        if seen:
            values |= {"p": value_at(seen[i], seen[i].p, token), "q": value_at(seen[i], seen[i].q, token)}
        if fate != "ignored":
            values |= {n: float(host[n][i]) for n in ("u", "threshold") if n in host}
            values |= {n: float(host[f"{n}_draft"][i]) for n in ("p", "q") if f"{n}_draft" in host}
            values |= {"match": int(host["match"][i])} if "match" in host else {}
        found.append(Draft(token, fate, **values))
    return tuple(found)


def coordinates_of(host: Host, emitted: int) -> Coordinates | None:
    if "u_p" not in host:
        return None
    return Coordinates(host["u_ratio"][:emitted], host["u_p"][:emitted], host.get("u_proposal"))


def emissions_of(
    emitted: list[int], count: int, k: int, rule: Rule, degenerate: bool, seen: tuple[Distributions, ...]
) -> tuple[Emitted, ...]:
    found = []
    for i, token in enumerate(emitted):
        source = source_of(i, count, k, rule.on_rejection, degenerate)
        values = None if not seen else seen[i].residual if source == "recovered" else seen[i].p
        found.append(Emitted(token, source, i, value_at(seen[i], values, token) if seen else None))
    return tuple(found)


def log_firsts(record: Round) -> None:
    for what in (record.rule, *(e.source for e in record.emitted)):
        if what in _logged:
            continue
        _logged.add(what)
        if what == record.rule:
            preserving = str(record.distribution_preserving).lower()
            rule = f"{record.rule} ({record.rule_label})"
            log.info('speculative acceptance rule active rule="%s" distribution_preserving=%s', rule, preserving)
        elif what in _FIRSTS:
            log.info("%s rule=%s", _FIRSTS[what], record.rule)
