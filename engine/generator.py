"""The round loop: draft, verify, accept, emit, rewind; one host sync a round."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.acceptance import Rule, Verdict, Verification, acceptance_rule
from engine.admission import PromptError, check_kv_quantization, check_models, notices_of, prompt_ids
from engine.alternatives import read_counterfactual
from engine.backend import describe_backend, mx
from engine.caches import CacheError
from engine.counterfactuals import counterfactuals
from engine.diagnostics import Host, Observation, distributions, observe
from engine.drafters import Proposal, no_proposal
from engine.drafting import draft_network, drafts_at_all
from engine.emission import TextSoFar, keep_emitted
from engine.forcing import force
from engine.forks import Forced
from engine.meters import meter_coordinates
from engine.models import Pair
from engine.paired_caches import PairedCaches
from engine.penalties import preprocess_logits, preprocessing_active, xtc_active
from engine.randomness import XTC, RoundKeys
from engine.recording_size import check_size
from engine.rewinds import REWIND_TABLE
from engine.round_record import coordinates_of, drafts_of, emissions_of, log_firsts
from engine.rounds import (
    ContentCheck,
    Round,
    RunEnd,
    RunHeader,
    Timings,
)
from engine.sampling import filter_logits, row_sums_and_maxima, unusable
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.statistics import Statistics, summary_line
from engine.switches import stochastic_from_environment

__all__ = ["PromptError", "RoundError", "SpeculativeGenerator"]

log = logging.getLogger("draftscope.engine")


class RoundError(RuntimeError):
    """A round can't be finished: non-finite logits, or nothing left to draw."""


class SpeculativeGenerator:
    """Runs a pair of models by draft and verify, on the thread that loaded them.

    `start` reads the prompt, `rounds` yields the records, `end` says how the run ended; `proceed` goes on from there.
    `stochastic` overrides the environment switch: True opts in, False opts out. Raises SettingsError.
    """

    def __init__(self, pair: Pair, settings: Settings | None = None, *, stochastic: bool | None = None) -> None:
        settings = settings or Settings()
        environment = stochastic_from_environment() if stochastic is None else None
        if stochastic is not None or environment:
            settings = dataclasses.replace(settings, stochastic=bool(stochastic or environment))
        elif environment is False:
            settings = dataclasses.replace(settings, kill_switch=True)
        settings.sampler.check_vocabulary(pair.target.vocab_size)
        settings.drafting.check_vocabulary(pair.target.vocab_size)
        check_size(settings, pair.target.vocab_size, drafts_at_all(pair, settings.drafter))
        check_kv_quantization(pair, settings)
        self.pair, self.settings = pair, settings
        self.statistics = Statistics()
        self.host_syncs = 0
        self.check_syncs = 0
        self.header: RunHeader | None = None
        self.end: RunEnd | None = None
        self.tokens: list[int] = []
        self._cancelled = threading.Event()
        self._changes: dict[str, Any] = {}
        self._limit = settings.max_tokens
        self._ending: tuple[str, str] | None = None
        draft_network(pair, settings.drafter)  # made now, so that it is refused now
        self.rule, _ = self._decide_rule()

    # Commands

    def _begin(self, ids: list[int], prompt: str) -> None:
        """Forget the run before; empty caches."""
        settings, target = self.settings, self.pair.target
        self.tokens, self.end, self.statistics, self.host_syncs, self.check_syncs = [], None, Statistics(), 0, 0
        self._prompt, self._index, self._debt, self._seconds = ids, 0, 0, 0.0
        self._previous_trims = (0, 0)
        self._forced: Forced | None = None
        self._limit = settings.max_tokens
        self._cancelled.clear()
        self._text = TextSoFar(target.vocabulary, settings.stop)
        self._seed = secrets.randbits(63) if settings.seed is None else settings.seed
        self._caches = PairedCaches(self.pair, settings)
        drafting = self._caches.drafting()
        self.rule, _ = self._decide_rule()
        self.header = RunHeader(
            run_id=0,
            target=target.info,
            draft=drafting.model,
            drafter=drafting.drafter,
            vocabulary=target.vocabulary,
            prompt=prompt,
            prompt_tokens=tuple(ids),
            settings=dataclasses.replace(settings, seed=self._seed),
            seed=self._seed,
            backend=describe_backend(),
            notices=(*self.pair.notices, *notices_of(self.pair, settings), *self._caches.notices()),
        )

    def start(self, prompt: str | Sequence[int], progress: Callable[[int, int], bool] | None = None) -> RunHeader:
        """Read the prompt (text or ids): both caches take all of it but the last token, in chunks.

        `progress(done, total)` returns True to cancel. Raises PromptError for a prompt that can't be run.
        """
        ids = prompt_ids(self.pair.target, prompt)
        self._begin(ids, prompt if isinstance(prompt, str) else self.pair.target.vocabulary.whole_text(ids))
        try:
            if not self._prefill(ids[:-1], progress):
                self._finish("cancelled", "Stopped while reading the prompt.")
        except BaseException:
            self._finish("error", "The prompt could not be read.")  # caches that hold a part of it are of no use
            raise
        return self._describe_caches()

    def _describe_caches(self) -> RunHeader:
        """The header, with the caches as they are once they hold something."""
        assert self.header is not None
        main, draft = self._caches.main.describe(), self._caches.drafting().layers
        self.header = dataclasses.replace(self.header, main_layers=main, draft_layers=draft)
        return self.header

    def fork(
        self,
        header: RunHeader,
        rounds: Sequence[Round],
        forced: Forced | None = None,
        progress: Callable[[int, int], bool] | None = None,
    ) -> RunHeader:
        """Start where a recorded run stood behind `rounds`, its first ones, and go on with these settings.

        The caches are rebuilt by the recorded passes; seed and round numbers go on, so that with the run's own
        settings the tokens are the run's own, on the same machine and libraries. `forced`: what is to happen in the
        next round. `progress(done, total)` returns True to cancel. Raises PromptError for a run of other models,
        SettingsError for a token outside the vocabulary.
        """
        check_models(self.pair, header)
        if forced is not None and forced.token is not None and not 0 <= forced.token < self.pair.target.vocab_size:
            raise SettingsError(f"forced: expected a token id below {self.pair.target.vocab_size}, got {forced.token}")
        seed = header.seed if self.settings.seed is None else self.settings.seed
        # Another drafter takes over behind the repeated rounds, by a change like any other.
        wanted, first = self.settings.drafter, header.settings.drafter
        self.settings = dataclasses.replace(self.settings, seed=seed, drafter=first)
        self._begin(list(header.prompt_tokens), header.prompt)
        self._prefill(self._prompt[:-1], None)
        made = self._describe_caches()
        for number, record in enumerate(rounds):
            if self._cancelled.is_set() or (progress is not None and progress(number, len(rounds))):
                self._finish("cancelled", "Stopped while the recorded rounds were repeated.")
                return made
            self._repeat(record)
        if self._limit != -1:
            self._limit = max(self._limit, len(self.tokens) + 1)
        self._forced = forced
        self._changes["drafter"] = wanted
        return made

    def change(self, **live: Any) -> None:
        """Change live settings (`engine.settings.LIVE_FIELDS`) from the next round on. Raises SettingsError."""
        settings = self.settings.with_live({**self._changes, **live})
        self._decide_rule(settings)
        draft_network(self.pair, settings.drafter)
        self._changes |= live

    def cancel(self) -> None:
        """End the run at the next round boundary; may be called from any thread."""
        self._cancelled.set()

    def check_contents(self) -> ContentCheck:
        """Compute the next-token logits from both caches and from fresh ones over the same tokens, and compare.

        Between rounds only. It costs a pass over all tokens and syncs of its own, which `check_syncs` counts; it
        changes no stream. Raises RuntimeError before `start` and after a run that failed.
        """
        if self.header is None or (self.end is not None and self.end.finish_reason == "error"):
            raise RuntimeError("the caches can be checked only in a run that hasn't failed")
        started = time.perf_counter()
        main, draft, syncs = self._caches.differences(self._context, len(self._prompt) - 1)
        self.check_syncs += syncs
        return ContentCheck(self._index - 1, main, draft, syncs, time.perf_counter() - started)

    def proceed(self, max_tokens: int) -> None:
        """Go on after the end for so many more tokens (-1: no limit), with the caches and the debt as they are."""
        if self.end is None or self.end.finish_reason == "error":
            raise RuntimeError("a run can go on only after it ended without an error")
        self.end = None
        self._cancelled.clear()
        self._text.reopen()
        self._limit = -1 if max_tokens == -1 else len(self.tokens) + max_tokens

    def rounds(self) -> Iterator[Round]:
        """Yield round after round until the run ends; `end` is set before the last one is yielded."""
        while self.end is None:
            if self._cancelled.is_set():
                self._finish("cancelled", "Stopped.")
                return
            if self._context_is_full():
                return
            emitted, text = len(self.tokens), self._text.copy()
            try:
                record = self._round()
            except Exception as error:
                # What has no record wasn't emitted, also where the failure came behind the test.
                del self.tokens[emitted:]
                self._text = text
                self._fail(error)
                return
            yield record

    @property
    def text(self) -> str:
        """What may be shown of the emitted text: a possible beginning of a stop string is held back."""
        return self._text.visible

    def summary(self) -> str:
        """The one line that ends every run."""
        return summary_line(self.statistics, self.rule.id, self._label(), self.settings.diagnostics)

    # One round

    def _round(self) -> Round:
        clock = [time.perf_counter()]
        changed = self._apply_changes()
        self.rule, reason = self._decide_rule()
        keys, context, caches = RoundKeys(self._seed, self._index), self._context, self._caches
        refed = caches.change_drafter(context)
        start = caches.ready(context, k := self._draft_count(), refed)
        try:
            proposal = self._draft(context, k, keys)
            k = proposal.tokens.shape[0]
            clock.append(time.perf_counter())
            verdict, observation, weights = self._verify(context, proposal, keys)
            host = self._sync(verdict, proposal, observation, weights)
            clock.append(time.perf_counter())
            self._check_logits(host, k)
        except BaseException:
            caches.return_to(start)
            raise
        drafted, count = host["drafted"].tolist(), int(host["count"])
        caches.hold(context, drafted)
        emitted = self._emit(drafted, count, int(host["token"]))
        seen = distributions(observation, host, k) if observation is not None else ()
        drafts = drafts_of(drafted, count, len(emitted), host, seen)
        clock.append(time.perf_counter())
        length = len(context)
        context += emitted
        main, draft = caches.rewind(context, start, k, min(count, len(emitted)), len(emitted))
        self._hold_to_the_law(caches.broken_laws(main, draft, k))
        clock.append(time.perf_counter())
        record = Round(
            index=self._index,
            context_length=length,
            rule=self.rule.id,
            rule_label=self._label(),
            rule_reason=reason,
            distribution_preserving=self._is_lossless,
            drafts=drafts,
            emitted=emissions_of(emitted, count, k, self.rule, bool(host.get("degenerate", False)), seen),
            main_cache=main,
            draft_cache=draft,
            debt=caches.debt,
            drift=draft.expected_end - draft.end if draft is not None else 0,
            timings=Timings(*(after - before for before, after in itertools.pairwise(clock))),
            distributions=seen,
            changed=changed,
            text_end=len(self._text.visible),
            forced="" if self._forced is None else str(self._forced),
            coordinates=coordinates_of(host, len(emitted)),
            counterfactual=read_counterfactual(host),
            drafting=caches.drafting() if "drafter" in changed else None,
        )
        self._close_round(record)
        return record

    def _draft(self, context: list[int], k: int, keys: RoundKeys) -> Proposal:
        drafter = self._caches.drafter
        if k == 0 or drafter is None:
            return no_proposal()
        return drafter.propose(context, self._caches.owed, k, self._history(context, drafter.settings), keys)

    def _verify(
        self, context: list[int], proposal: Proposal, keys: RoundKeys
    ) -> tuple[Verdict, Observation | None, mx.array]:
        """One target pass over y and the drafts, the rule's verdict on them, and what it drew from, all lazy."""
        sampler, settings = self.settings.sampler, self.settings
        ids = mx.concatenate([mx.array(context[-1:], dtype=mx.uint32), proposal.tokens.astype(mx.uint32)])
        logits = self._caches.main.forward(ids)[0]
        coins = keys.uniforms(XTC, ids.shape[0]) if xtc_active(sampler) else None
        processed = preprocess_logits(logits, sampler, self._history(context, sampler), proposal.tokens, coins)
        if not preprocessing_active(sampler):
            logits = processed  # the same numbers: there is no stage before the penalties to show
        verification = Verification(
            proposal.tokens,
            filter_logits(processed, sampler, coins),
            proposal.q,
            keys,
            processed,
            proposal.processed,
        )
        verdict = self.rule.decide(verification)
        if self._forced is not None:
            verdict = force(verification, verdict, self.rule, self._forced)
        # A bias may be finite and overflow once it is divided by the temperature.
        weights = processed if sampler.is_greedy else verification.target
        if not settings.record:
            return verdict, None, weights
        drafting = self._caches.drafter.settings if self._caches.drafter is not None else None
        target = (logits, processed, coins, sampler)
        n = logits.shape[-1] if settings.full_vocabulary else settings.top_n
        seen = observe(verification, verdict, proposal, target, drafting, n, settings.diagnostics)
        if settings.diagnostics and not sampler.is_greedy:
            seen.arrays.update(meter_coordinates(verification, verdict))
            seen.arrays.update(counterfactuals(verification, self.rule.id, verdict, seen.arrays))
        return verdict, seen, weights

    def _sync(self, verdict: Verdict, proposal: Proposal, seen: Observation | None, weights: mx.array) -> Host:
        """The round's one host sync: everything that the host will read, evaluated together."""
        arrays = dict(seen.arrays) if seen is not None else {}
        arrays["drafted"] = proposal.tokens
        arrays["target_sums"], arrays["target_maxima"] = row_sums_and_maxima(weights)
        drawn_from = proposal.processed if proposal.weights is None else proposal.weights
        if drawn_from is not None:
            arrays["draft_sums"], arrays["draft_maxima"] = row_sums_and_maxima(drawn_from)
        for field in ("count", "token", "degenerate", "u", "threshold", "match", "block_p", "block_h"):
            if (value := getattr(verdict, field)) is not None:
                arrays[field] = value
        for field in ("p", "q"):
            if (value := getattr(verdict, field)) is not None:
                arrays[f"{field}_draft"] = value
        mx.eval(list(arrays.values()))
        self.host_syncs += 1
        return {name: np.array(value) for name, value in arrays.items()}

    def _check_logits(self, host: Host, k: int) -> None:
        """Refuse to show or emit anything that came from a row nothing can be drawn from."""
        before = len(self.tokens)
        for who, rows in (("draft", k), ("target", int(host["count"]) + 1)):
            if not rows or f"{who}_sums" not in host:  # nothing was drawn from drafts that were looked up
                continue
            bad = unusable(host[f"{who}_sums"][:rows].tolist(), host[f"{who}_maxima"][:rows].tolist())
            if any(bad):
                raise RoundError(f"non-finite logits at step {before + bad.index(True)} ({who})")

    def _emit(self, drafted: list[int], count: int, token: int) -> list[int]:
        """Emit the kept drafts and the token behind them, up to what ends the run."""
        room = None if self._limit == -1 else self._limit - len(self.tokens)
        emitted, stopped = keep_emitted([*drafted[:count], token], room, self.pair.target.end_ids, self._text)
        self.tokens += emitted
        if stopped:
            self._ending = ("stop", stopped)
        elif room is not None and len(emitted) == room:
            self._ending = ("length", f"The limit of {self._limit} tokens is reached.")
        else:
            self._ending = None
        if self._ending is not None:
            self._text.close()
        return emitted

    def _hold_to_the_law(self, broken: list[str]) -> None:
        """A cache that missed it without a fault asked for ends the run, behind the round that shows it."""
        if broken:
            self._ending = ("error", "; ".join(broken))
            self._text.close()

    def _close_round(self, record: Round) -> None:
        self._forced = None
        self._index += 1
        self._seconds += record.timings.total
        self.statistics.add(record)
        log_firsts(record)
        if self._ending is not None:
            self._finish(*self._ending)

    # Parts of the state

    def _decide_rule(self, settings: Settings | None = None) -> tuple[Rule, str]:
        settings = settings or self.settings
        return acceptance_rule(
            greedy_target=settings.sampler.is_greedy,
            stochastic=settings.stochastic,
            kill_switch=settings.kill_switch,
            reports_q=settings.reports_q and drafts_at_all(self.pair, settings.drafter),
            one_hot_q=settings.one_hot_q,
            asked=settings.rule,
        )

    def _apply_changes(self) -> dict[str, Any]:
        if not self._changes:
            return {}
        changed = {n: v for n, v in self._changes.items() if getattr(self.settings, n) != v}
        self._changes = {}
        self.settings = self._caches.settings = self.settings.with_live(changed)
        return changed

    def _history(self, context: list[int], sampler: SamplerSettings) -> mx.array | None:
        """The tokens that penalties may count, or None where none is on."""
        if not preprocessing_active(sampler):
            return None
        seen = context if sampler.penalize_prompt else self.tokens
        return mx.array(seen, dtype=mx.int32) if seen else None

    def _draft_count(self) -> int:
        """k, no more than the tokens still allowed and than both contexts have room for."""
        if self._caches.drafter is None:
            return 0
        k, held = self.settings.num_draft_tokens, len(self._prompt) + len(self.tokens)
        if self._limit != -1:
            k = min(k, self._limit - len(self.tokens))
        if (room := self.pair.target.context_length) is not None:
            k = min(k, room - held)
        draft = self._caches.draft_model
        if draft is not None and (room := draft.context_length) is not None:
            k = min(k, room - held + 1)
        return max(k, 0)

    def _context_is_full(self) -> bool:
        room = self.pair.target.context_length
        held = len(self._prompt) + len(self.tokens)
        if room is None or held <= room:
            return False
        draft = self._caches.draft_model
        other = f", the draft's {draft.context_length}" if draft is not None else ""
        self._finish("length", f"The context is full: the target's holds {room} tokens{other}; {held} are in use.")
        return True

    @property
    def _context(self) -> list[int]:
        """The prompt and all emitted tokens."""
        return [*self._prompt, *self.tokens]

    @property
    def _main_is_wrong(self) -> bool:
        """Whether a fault of the main cache corrupts p itself."""
        return REWIND_TABLE[self.settings.main_rewind].is_fault

    @property
    def _is_lossless(self) -> bool:
        return self.rule.distribution_preserving and not self._main_is_wrong and self._forced is None

    def _label(self) -> str:
        """The rule's label, and what takes losslessness from it."""
        wrongs = [f"main cache {self.settings.main_rewind}"] if self._main_is_wrong else []
        wrongs += [str(self._forced)] if self._forced is not None else []
        return "; not lossless: ".join([self.rule.label, *wrongs])

    def _prefill(self, ids: list[int], progress: Callable[[int, int], bool] | None) -> bool:
        """Read the prompt into both caches; False if it was cancelled."""

        def stopped(done: int, total: int) -> bool:
            return self._cancelled.is_set() or (progress is not None and progress(done, total))

        return self._caches.read(ids, stopped)

    def _repeat(self, record: Round) -> None:
        """Take over a recorded round: its passes, its tokens, its count."""
        if "drafter" in record.changed:
            self.settings = self._caches.settings = self.settings.with_live({"drafter": record.changed["drafter"]})
        self._caches.repeat(self._context, record)
        for token in (e.token for e in record.emitted):
            self.tokens.append(token)
            self._text.add(token)
        self._index = record.index + 1
        self.statistics.add(record)

    # The end

    def _fail(self, error: Exception) -> None:
        """A failed round left both caches at the last good one, or the run can't go on."""
        told = str(error)
        if not isinstance(error, RoundError | CacheError):
            told = repr(error)
        elif isinstance(error, CacheError) and error.__context__ is not None:
            told = f"{error.__context__!r}; then {error}"
        if told != str(error):
            log.error("round %d failed", self._index, exc_info=error)
        self._finish("error", told)

    def _finish(self, reason: str, notice: str) -> None:
        s = self.statistics
        self._text.close()
        self.end = RunEnd(
            reason, notice, self.summary(), self._text.visible, self.host_syncs, self._seconds, self.check_syncs
        )
        log.info(
            "speculative decode finished rule=%s rounds=%d proposed_draft_tokens=%d accepted_draft_tokens=%d "
            "acceptance_rate=%s mean_accepted_len=%s generated_tokens=%d",
            self.rule.id,
            s.rounds,
            s.proposed,
            s.accepted,
            "-" if s.acceptance_rate is None else f"{s.acceptance_rate:.4f}",
            "-" if s.mean_accepted_len is None else f"{s.mean_accepted_len:.4f}",
            len(self.tokens),
        )
        log.info(self.end.summary)
