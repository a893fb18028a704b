"""Where the text of a run ended that met a stop string: its last tokens were emitted, but are no part of it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.recording import RecordedRun
from engine.text import Vocabulary


@dataclass(frozen=True)
class TextEnd:
    """`tokens`: so many last ones stand behind the text, the first of them perhaps in part. `cut`: what they spell."""

    tokens: int
    cut: str

    def of_round(self, run: RecordedRun, index: int) -> int:
        """How many of a round's last tokens stand behind the text."""
        first, emitted = (int(run.column(name)[index]) for name in ("first_token", "emitted"))
        return min(max(first + emitted - (len(run.tokens) - self.tokens), 0), emitted)


def text_end(run: RecordedRun) -> TextEnd | None:
    """Where the text ended, None where it holds all that its tokens spell. Costs what the stop string is long."""
    end, stops = run.end, run.header.settings.stop
    if end is None or end.finish_reason != "stop" or not stops:
        return None
    spelled, enough = b"", 0
    for count, token in enumerate(reversed(run.tokens), start=1):
        spelled = _piece(run.header.vocabulary, token) + spelled
        enough = enough or len(spelled) + 4 * max(map(len, stops))  # the last token completed it
        tail = spelled.decode("utf-8", "replace")
        if places := [place for stop in stops if (place := tail.find(stop)) >= 0]:
            return TextEnd(count, tail[min(places) :])
        if len(spelled) > enough:
            return None
    return None


def _piece(vocabulary: Vocabulary, token: int) -> bytes:
    spells = token not in vocabulary.special and 0 <= token < len(vocabulary)
    return vocabulary.pieces[token] if spells else b""
