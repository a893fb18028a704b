"""Recorded runs for the panels' tests and pictures: seeded, lawful in shape, made without MLX or any model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from engine.recording import RecordedRun
from engine.rounds import (
    CachePositions,
    Distributions,
    Draft,
    Emitted,
    ModelInfo,
    Round,
    RunEnd,
    RunHeader,
    Timings,
)
from engine.settings import SamplerSettings, Settings
from engine.statistics import summary_line
from engine.text import Vocabulary

Probabilities = npt.NDArray[np.float64]

_WORDS = (
    " the| and| of| to| a| I| in| was| that| he| had| her| she| his| with| as| for| not| be| have| but| at| him| is| on"
    "|,|.|;|!|?| said| evening| house| come| must| little| thought| great| which| we| should| were| so| been| out"
    "| other| who| days| trouble|ct|s|ll|able|ck|led|ged|al|ar|med|ther|atter|ower|cons|ult|ing|ed|er| fa| f|ur"
    "|\n|\n\n|\t|<b>x</b>|<img src=x>|שלום|e\u0301|\u2028|\x00"
)
EXACT = {
    "stochastic": "modified rejection sampling",
    "sampler-match": "fresh target draw",
    "greedy-argmax": "greedy target sampler",
    "sampler-match-no-proposal-distribution": "drafter reported no proposal distribution",
}
REASONS = {
    "stochastic": "Stochastic is on.",
    "sampler-match": "Stochastic is off.",
    "greedy-argmax": "The target sampler is greedy.",
    "sampler-match-no-proposal-distribution": "Stochastic is on, but the drafter reported no q.",
}
PROMPT = 15
TOP = 12


def fake_vocabulary() -> Vocabulary:
    """English pieces, white space, markup, right-to-left, combining, control, byte and special tokens."""
    pieces = [word.encode() for word in _WORDS.split("|")]
    pieces += [b"\xf0\x9f", b"\xe2", b""]
    end = len(pieces) - 1
    return Vocabulary(tuple(pieces), frozenset({end}), {end: "<|endoftext|>"}, frozenset({end}))


def fake_model(name: str, parameters: int, layers: int) -> ModelInfo:
    return ModelInfo(
        name, f"/models/{name}", "llama", parameters, layers, len(fake_vocabulary()), 1024, "float32", "KV"
    )


def fake_header(rule: str = "stochastic", k: int = 4, diagnostics: bool = True, run_id: int = 1) -> RunHeader:
    vocabulary = fake_vocabulary()
    temperature = 0.0 if rule == "greedy-argmax" else 0.7
    settings = Settings(
        sampler=SamplerSettings(temperature=temperature),
        num_draft_tokens=k,
        max_tokens=100,
        seed=1,
        stochastic=rule.startswith(("stochastic", "sampler-match-")),
        diagnostics=diagnostics,
        drafter="no-q" if rule.endswith("distribution") else "sample",
    )
    prompt = tuple(range(PROMPT))
    return RunHeader(
        run_id=run_id,
        target=fake_model("bundled 2.2 M", 2_200_000, 4),
        draft=fake_model("bundled 0.4 M", 400_000, 2),
        drafter=settings.drafter,
        vocabulary=vocabulary,
        prompt=vocabulary.decode(prompt),
        prompt_tokens=prompt,
        settings=settings,
        seed=1,
        backend="CPU, OpenBLAS",
    )


def _softmax(logits: Probabilities) -> Probabilities:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _entropy(p: Probabilities) -> float:
    kept = p[p > 0]
    return float(-(kept * np.log(kept)).sum())


class FakeRounds:
    """Makes round after round: draws p and q, tests and emits by the rule, and keeps the caches' book.

    `legacy`: the draft cache trims by the defect's rule, so that drift grows. `distributions` False: none are
    recorded (quick, for long runs). `quirks` False: only plain words are drafted and emitted.
    """

    def __init__(
        self,
        rule: str = "stochastic",
        k: int = 4,
        seed: int = 1,
        *,
        diagnostics: bool = True,
        legacy: bool = False,
        distributions: bool = True,
        quirks: bool = True,
    ) -> None:
        self.rule, self.k, self.legacy = rule, k, legacy
        self.diagnostics, self.with_distributions = diagnostics, distributions
        self.has_q = not rule.endswith("distribution")
        self.rng = np.random.default_rng(seed)
        self.size = len(fake_vocabulary())
        self.quiet = self.size - (0 if quirks else 12)
        self.index, self.context, self.debt, self.drift, self.text_end = 0, PROMPT, 0, 0, 0

    def _pair(self) -> tuple[Probabilities, Probabilities]:
        base = self.rng.normal(0, 1.6, self.size)
        base[:30] += 1.5
        base[self.quiet :] = -40
        p = _softmax(base * 1.4)
        q = _softmax((base + self.rng.normal(0, 0.7, self.size)) * 1.4)
        if self.rule == "greedy-argmax":
            p = np.eye(self.size)[p.argmax()]
        return p, q

    def _test(self, token: int, p: Probabilities, q: Probabilities) -> tuple[Draft, int, str, float | None]:
        """The draft with its fate; then what a rejection would emit, its source and its probability."""
        shown_q = float(q[token]) if self.has_q else None
        forms = self.diagnostics and self.has_q
        common = {
            "q": shown_q,
            "p": float(p[token]),
            "sum_min": float(np.minimum(p, q).sum()) if forms else None,
            "sum_prod": float((p * q).sum()) if forms else None,
            "p_argmax_q": float(p[q.argmax()]) if forms else None,
            "q_argmax_p": float(q[p.argmax()]) if forms else None,
            "p_entropy": _entropy(p),
            "q_entropy": _entropy(q) if self.has_q else None,
        }
        if self.rule == "stochastic":
            u = float(np.float32(self.rng.random()))
            threshold = float(np.float32(u * q[token]))
            accepted = p[token] > 0 and threshold <= p[token]
            residual = np.maximum(p - q, 0)
            residual /= residual.sum()
            emitted, source = int(self.rng.choice(self.size, p=residual)), "recovered"
            draft = Draft(token, "accepted" if accepted else "rejected", u=u, threshold=threshold, **common)
            return draft, emitted, source, float(residual[emitted])
        match = int(p.argmax()) if self.rule == "greedy-argmax" else int(self.rng.choice(self.size, p=p))
        draft = Draft(token, "accepted" if token == match else "rejected", match=match, **common)
        return draft, match, "greedy" if self.rule == "greedy-argmax" else "target-draw", float(p[match])

    def next(self) -> Round:
        """The next round of the run."""
        pairs = [self._pair() for _ in range(self.k + 1)]
        drafts: list[Draft] = []
        emitted: list[Emitted] = []
        replaced = False
        for position, (p, q) in enumerate(pairs[: self.k]):
            token = int(self.rng.choice(self.size, p=q))
            if replaced:
                drafts.append(Draft(token, "ignored", q=float(q[token]) if self.has_q else None))
                continue
            draft, instead, source, probability = self._test(token, p, q)
            drafts.append(draft)
            replaced = draft.fate == "rejected"
            emitted.append(
                Emitted(instead, source, position, probability)
                if replaced
                else Emitted(token, "accepted", position, float(p[token]))
            )
        if not replaced:
            p = pairs[self.k][0]
            token = int(self.rng.choice(self.size, p=p))
            emitted.append(Emitted(token, "bonus" if self.k else "target-draw", self.k, float(p[token])))
        return self._record(pairs, drafts, emitted)

    def _record(self, pairs: list[tuple[Probabilities, Probabilities]], drafts: list[Draft], emitted: list[Emitted]):
        k, e, start = self.k, len(emitted), self.context - 1
        trim = k + 1 - e
        main = CachePositions(start, k + 1, (trim,), (trim,), start + e, start + e, (start + e,))
        draft_start = start - self.debt - self.drift
        debt = max(e - k, 0) if k else self.debt + 1
        forwarded = k + self.debt if k else 0
        right = max(k - e, 0)
        done = min(k - (e - 1) + 1, k) if self.legacy and k else right
        self.drift += done - right
        end = draft_start + forwarded - done
        expected = start + e - debt
        draft = CachePositions(draft_start, forwarded, (done,), (done,), end, expected, (end,))
        self.text_end += 4 * e
        record = Round(
            index=self.index,
            context_length=self.context,
            rule=self.rule,
            rule_label=EXACT[self.rule],
            rule_reason=REASONS[self.rule],
            distribution_preserving=True,
            drafts=tuple(drafts),
            emitted=tuple(emitted),
            main_cache=main,
            draft_cache=draft,
            debt=debt,
            drift=self.drift,
            timings=Timings(0.0004, 0.0041, 0.0003, 0.0002 + 0.0001 * (self.index % 5)),
            distributions=self._distributions(pairs, drafts, emitted) if self.with_distributions else (),
            text_end=self.text_end,
        )
        self.index, self.context, self.debt = self.index + 1, self.context + e, debt
        return record

    def _distributions(self, pairs, drafts: list[Draft], emitted: list[Emitted]) -> tuple[Distributions, ...]:
        made = []
        for position, (p, q) in enumerate(pairs):
            behind = position == self.k
            shown_q = q if self.has_q and not behind else None
            residual = np.maximum(p - q, 0)
            mass = float(residual.sum())
            wanted = set(np.argsort(-p)[:TOP])
            if shown_q is not None:
                wanted |= set(np.argsort(-q)[:TOP]) | set(np.argsort(-residual)[:TOP])
            wanted |= {e.token for e in emitted if e.position == position}
            wanted |= set() if behind else {drafts[position].token}
            ids = np.array(sorted(wanted, key=lambda i: -max(p[i], 0 if shown_q is None else q[i])), np.int32)
            p32, q32 = p.astype(np.float32), q.astype(np.float32)
            made.append(
                Distributions(
                    ids=ids,
                    p=p32[ids],
                    q=None if shown_q is None else q32[ids],
                    residual=None if shown_q is None else (residual / mass).astype(np.float32)[ids],
                    residual_mass=None if shown_q is None else mass,
                    p_stages=(("raw", p32[ids]), ("temperature", p32[ids])),
                    q_stages=() if shown_q is None else (("raw", q32[ids]), ("temperature", q32[ids])),
                    vocab_size=self.size,
                    p_support=int((p > 0).sum()),
                    q_support=None if shown_q is None else int((q > 0).sum()),
                    residual_support=None if shown_q is None else int((residual > 0).sum()),
                )
            )
        return tuple(made)

    def __iter__(self) -> Iterator[Round]:
        while True:
            yield self.next()


def fake_run(rounds: int = 26, rule: str = "stochastic", k: int = 4, seed: int = 1, **options: bool) -> RecordedRun:
    """A run of so many rounds; for the options see FakeRounds."""
    run = RecordedRun(fake_header(rule, k, options.get("diagnostics", True)))
    source = FakeRounds(rule, k, seed, **options)
    for _ in range(rounds):
        run.append(source.next())
    return run


def end_run(run: RecordedRun, reason: str = "length", notice: str = "100 tokens were asked for.") -> None:
    """Set the run's end."""
    summary = summary_line(run.statistics, run[0].rule, run[0].rule_label, True)
    run.end = RunEnd(reason, notice, summary, run.header.vocabulary.decode(run.tokens), len(run), 1.25)
