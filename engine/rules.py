"""The table of acceptance rules, and the one function that decides which is in force; no MLX, so anybody may ask."""

from __future__ import annotations

from dataclasses import dataclass

from engine.settings import RULE_CHOICES, SettingsError


@dataclass(frozen=True, kw_only=True)
class RuleInfo:
    """What there is to know of an acceptance rule beside its test, which `engine.acceptance` holds.

    `id`: stable, without white space. `label`: in brackets behind it. `sentence`: what a person should know of it.
    `on_rejection`: source of the token at a rejected position (`engine.rounds.SOURCES`). `needs_q`: it tests with the
    drafter's distribution. `only_by_hand`: never chosen unless asked for by its id.
    `closed_form`: what predicts its acceptance, a field of `engine.rounds.Draft`: the probability that a tested draft
    is accepted; "block": E[accepted] = E[sum_i P_i] a round; None: no closed form is kept for it.
    """

    id: str
    label: str
    sentence: str
    distribution_preserving: bool
    on_rejection: str
    closed_form: str | None
    needs_q: bool = False
    only_by_hand: bool = False

    @property
    def is_reference(self) -> bool:
        """Wrong on purpose: it imitates a known mistake, and its output isn't the target's own."""
        return not self.distribution_preserving


RULE_TABLE = {
    info.id: info
    for info in (
        RuleInfo(
            id="greedy-argmax",
            label="greedy target sampler",
            sentence="The text is the target's own greedy text.",
            distribution_preserving=True,
            on_rejection="greedy",
            closed_form="q_argmax_p",
        ),
        RuleInfo(
            id="sampler-match",
            label="fresh target draw",
            sentence="Lossless as well, but it accepts less often than modified rejection sampling.",
            distribution_preserving=True,
            on_rejection="target-draw",
            closed_form="sum_prod",
        ),
        RuleInfo(
            id="stochastic",
            label="modified rejection sampling",
            sentence=(
                "Modified rejection sampling: lossless, and no token-wise lossless rule accepts this drafter more."
            ),
            distribution_preserving=True,
            on_rejection="recovered",
            closed_form="sum_min",
            needs_q=True,
        ),
        RuleInfo(
            id="sampler-match-no-proposal-distribution",
            label="drafter reported no proposal distribution",
            sentence="Lossless; without q a draft can only be matched with a fresh draw.",
            distribution_preserving=True,
            on_rejection="target-draw",
            closed_form="sum_prod",
        ),
        RuleInfo(
            id="block",
            label="block verification",
            sentence="Lossless: it tests the drafts of a round together, and never keeps fewer on average.",
            distribution_preserving=True,
            on_rejection="recovered",
            closed_form="block",
            needs_q=True,
            only_by_hand=True,
        ),
        RuleInfo(
            id="argmax-vs-argmax",
            label="not lossless: argmax at every temperature",
            sentence="Not lossless: it keeps and emits the target's argmax alone, whatever the temperature.",
            distribution_preserving=False,
            on_rejection="greedy",
            closed_form="q_argmax_p",
            only_by_hand=True,
        ),
        RuleInfo(
            id="resample-from-p",
            label="not lossless: a rejection draws from p",
            sentence="Not lossless: a rejection draws from p instead of the residual, so likely drafts come too often.",
            distribution_preserving=False,
            on_rejection="target-draw",
            closed_form="sum_min",
            needs_q=True,
            only_by_hand=True,
        ),
        RuleInfo(
            id="missing-support-check",
            label="not lossless: no support check, in half precision",
            sentence="Not lossless: where q has underflowed to 0, it accepts tokens that the target can't emit.",
            distribution_preserving=False,
            on_rejection="recovered",
            closed_form="sum_min",
            needs_q=True,
            only_by_hand=True,
        ),
        RuleInfo(
            id="raw-q",
            label="not lossless: q before its temperature and filters",
            sentence="Not lossless: the q that it tests with isn't the one that the drafts were drawn from.",
            distribution_preserving=False,
            on_rejection="recovered",
            closed_form=None,
            needs_q=True,
            only_by_hand=True,
        ),
    )
}


def acceptance_rule(
    *,
    greedy_target: bool,
    stochastic: bool,
    kill_switch: bool,
    reports_q: bool,
    asked: str = "auto",
    one_hot_q: bool = False,
) -> tuple[RuleInfo, str]:
    """The rule in force and why, as the rest of a sentence: the one place that decides.

    In this order: greedy target; kill switch, or not opted in; no proposal distribution; `block` or a reference rule,
    if asked for; stochastic. `asked` is a rule named by hand, which opts in to it. `one_hot_q`: the drafter takes the
    argmax. Raises SettingsError for a rule that can't be asked for.
    """
    if asked not in RULE_CHOICES:
        raise SettingsError(
            f"rule: expected one of {', '.join(RULE_CHOICES)}; got {asked!r}, which this version doesn't have"
        )
    if greedy_target:
        return RULE_TABLE["greedy-argmax"], "the target's sampler is greedy (temperature 0 or top-k 1)"
    if asked == "greedy-argmax":
        raise SettingsError("rule: greedy-argmax needs temperature 0 or top-k 1, for the output to stay lossless")
    if kill_switch:
        return RULE_TABLE["sampler-match"], "the kill switch is on"
    if asked == "auto" and not stochastic:
        return RULE_TABLE["sampler-match"], "Stochastic is off"
    wanted = RULE_TABLE["stochastic" if asked == "auto" else asked]
    if wanted.needs_q and not reports_q:
        return RULE_TABLE["sampler-match-no-proposal-distribution"], "the drafter reports no proposal distribution q"
    if wanted.id == "block" and one_hot_q:
        return RULE_TABLE["stochastic"], "block was asked for, which is the same where the drafter takes its argmax"
    if wanted.is_reference:
        return wanted, "asked for by name; it is wrong on purpose"
    return wanted, "Stochastic is on" if asked == "auto" else "asked for by name"
