"""The six words of the toy and the logits of its two models, known beforehand; no MLX."""

from __future__ import annotations

TOY = "toy"
"""The `model_type` of models whose logits are a table."""

BLIND = "the toy's logits don't depend on what a cache holds, so this check can see nothing of it"

WORDS = (" the", " cat", " sat", " on", " a", " mat")
TARGET_LOGITS = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
DRAFT_LOGITS = (1.4, 1.3, 0.2, 0.6, -0.3, -0.8)
