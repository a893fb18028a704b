"""Which rule the next run would go by, asked of the engine's own decision."""

from __future__ import annotations

from engine.rules import RULE_TABLE, acceptance_rule
from engine.settings import Settings, SettingsError

EXPLANATIONS = {rule: info.sentence for rule, info in RULE_TABLE.items()}


def is_reference(rule: str) -> bool:
    """Whether a rule, or a choice of one, is wrong on purpose."""
    return rule in RULE_TABLE and RULE_TABLE[rule].is_reference


def next_rule(settings: Settings) -> tuple[str, str]:
    """(id, reason) of the rule that these settings lead to, or the engine's refusal as the reason with id ""."""
    try:
        rule, reason = acceptance_rule(
            greedy_target=settings.sampler.is_greedy,
            stochastic=settings.stochastic,
            kill_switch=settings.kill_switch,
            reports_q=settings.reports_q,
            asked=settings.rule,
            one_hot_q=settings.one_hot_q,
        )
    except SettingsError as error:
        return "", str(error)
    return rule.id, reason
