"""Which rule the next run would go by, asked of the engine's own decision."""

from __future__ import annotations

import sys

from engine.settings import Settings, SettingsError

EXPLANATIONS = {
    "sampler-match": "Lossless as well, but it accepts less often than modified rejection sampling.",
    "stochastic": "Modified rejection sampling: lossless, and no token-wise lossless rule accepts this drafter more.",
    "greedy-argmax": "The text is the target's own greedy text.",
    "sampler-match-no-proposal-distribution": "Lossless; without q a draft can only be matched with a fresh draw.",
}


def next_rule(settings: Settings) -> tuple[str, str] | None:
    """(id, reason) of the rule that these settings lead to, or the engine's refusal as the reason with id "".

    None while MLX isn't imported yet: the decision lives beside code that needs it, and importing it is the
    worker's task, not the window's.
    """
    if "mlx.core" not in sys.modules:
        return None
    from engine.acceptance import acceptance_rule

    try:
        rule, reason = acceptance_rule(
            greedy_target=settings.sampler.is_greedy,
            stochastic=settings.stochastic,
            kill_switch=settings.kill_switch,
            reports_q=settings.drafter != "no-q",
            asked=settings.rule,
        )
    except SettingsError as error:
        return "", str(error)
    return rule.id, reason
