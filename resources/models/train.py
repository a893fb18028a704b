"""Train the bundled pair: a byte-level BPE tokenizer, a Llama-shaped target, and a draft distilled from it.

    python resources/models/train.py CORPUS_FOLDER OUTPUT_FOLDER [--stage all]

Needs torch, tokenizers, safetensors and numpy; the program itself needs none of torch. Each stage keeps its
result in OUTPUT_FOLDER/work, so a later stage can be run again alone. Two cores need about an hour and a half.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# Page faults cost most of the time without these; they must be set before the allocator starts.
MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "99999999999",
    "MALLOC_TOP_PAD_": "1073741824",
}
if __name__ == "__main__" and sys.platform == "linux" and "MALLOC_MMAP_MAX_" not in os.environ:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from torch import Tensor, nn  # noqa: E402

END = "<|endoftext|>"
VOCABULARY = 4096
CONTEXT = 1024
HELD_OUT_EVERY = 16  # chapters
CHAPTER = re.compile(r"^[ \t]*(?:CHAPTER|Chapter)\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Shape:
    """Sizes of one Llama-shaped model; heads are 64 (target) or 32 (draft) wide."""

    width: int
    layers: int
    heads: int
    hidden: int
    dropout: float


@dataclass(frozen=True)
class Budget:
    """Tokens to train on, the share of them at full context length, and the peak learning rate."""

    tokens: int
    long_share: float
    rate: float


SHAPES = {"target": Shape(256, 4, 4, 704, 0.1), "draft": Shape(96, 2, 3, 256, 0.0)}
BUDGETS = {
    "target": Budget(20_000_000, 0.2, 3e-3),
    "draft": Budget(6_000_000, 0.1, 4e-3),
    "distil": Budget(4_000_000, 0.3, 2e-3),
}


# Text


def chapters(path: Path) -> list[str]:
    """The chapters of one book as running text: one line a paragraph, no hard wraps, no emphasis marks."""
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n").replace("_", "")
    found = []
    for part in CHAPTER.split(text)[1:]:
        paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", part)]
        body = "\n".join(p for p in paragraphs if p and p != "FINIS" and not p.startswith("VOLUME "))
        if len(body) > 500:
            found.append(body)
    return found


def load_corpus(folder: Path) -> tuple[list[str], list[str]]:
    """Training chapters and held-out chapters; every sixteenth chapter of each book is held out."""
    train, held_out = [], []
    for path in sorted(folder.glob("*.txt")):
        if path.name == "LICENSES.txt":
            continue
        for number, chapter in enumerate(chapters(path)):
            (held_out if number % HELD_OUT_EVERY == HELD_OUT_EVERY // 2 else train).append(chapter)
    if not train:
        raise SystemExit(f"no chapters found in {folder}: expected the corpus's .txt files")
    return train, held_out


def train_tokenizer(texts: list[str], work: Path) -> Tokenizer:
    """Byte-level BPE whose pieces are words and word parts with their leading space."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(work / "tokenizer.json"))
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """All texts as one row of token ids, END after each. Shape (n,), int64."""
    end = tokenizer.token_to_id(END)
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        ids += [*encoding.ids, end]
    return torch.tensor(ids, dtype=torch.long)


# Model


class Attention(nn.Module):
    """Causal self-attention with rotary positions (half-split layout, theta 1e4)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(shape.width, shape.width, bias=False))
        size = shape.width // shape.heads
        angle = torch.arange(CONTEXT)[:, None] / 1e4 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotate(self, x: Tensor) -> Tensor:
        first, second = x.float().chunk(2, dim=-1)
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            projection(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    """SwiGLU feed-forward block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Mlp(shape)
        self.input_layernorm = nn.RMSNorm(shape.width, eps=1e-5)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, eps=1e-5)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.self_attn(self.input_layernorm(x)))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Llama(nn.Module):
    """A Llama-shaped model with tied embeddings; parameter names are those of its model folder."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(VOCABULARY, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=1e-5)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * shape.layers) if deep else 1))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits, shape (batch, length, vocabulary), float32."""
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed_tokens.weight).float()


# Training


def batches(ids: Tensor, budget: Budget, seed: int) -> Iterator[tuple[float, Tensor]]:
    """Progress in [0, 1) and token blocks: 16 x 257 first, 4 x 1025 for the last share."""
    generator = torch.Generator().manual_seed(seed)
    done = 0
    while done < budget.tokens:
        rows, length = (16, 256) if done < budget.tokens * (1 - budget.long_share) else (4, CONTEXT)
        starts = torch.randint(len(ids) - length - 1, (rows,), generator=generator)
        yield done / budget.tokens, torch.stack([ids[s : s + length + 1] for s in starts])
        done += rows * length


def optimizers(model: Llama, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [p for p in model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.01),
    ]


def fit(name: str, model: Llama, ids: Tensor, budget: Budget, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Train with a short warm-up and a linear decay over the last half."""
    steps, started, running = optimizers(model, budget.rate), time.time(), math.nan
    model.train()
    for count, (progress, block) in enumerate(batches(ids, budget, seed=len(name))):
        scale = min(1.0, (count + 1) / 100, 2.02 * (1 - progress) + 0.01)
        for optimizer in steps:
            for group in optimizer.param_groups:
                group["lr"] = budget.rate * scale
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model(block[:, :-1]), block)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in steps:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        running = loss.item() if math.isnan(running) else 0.98 * running + 0.02 * loss.item()
        if count % 100 == 0:
            minutes = (time.time() - started) / 60
            print(f"{name} {progress:6.1%} loss {running:.3f} after {minutes:.1f} min", flush=True)


def cross_entropy(logits: Tensor, block: Tensor) -> Tensor:
    """Mean loss in nats a token."""
    return F.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())


def distillation(target: Llama) -> Callable[[Tensor, Tensor], Tensor]:
    """0.7 KL(target || draft) + 0.3 cross-entropy."""

    def loss(logits: Tensor, block: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = target(block[:, :-1]).log_softmax(-1)
        divergence = F.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="none").sum(-1).mean()
        return 0.7 * divergence + 0.3 * cross_entropy(logits, block)

    return loss


# Evaluation and export


@torch.no_grad()
def evaluate(target: Llama, draft: Llama, held_out: Tensor) -> dict[str, object]:
    """Held-out losses, and sum min(p, q), sum p*q and argmax agreement by temperature, at full context."""
    target.eval()
    draft.eval()
    sums: dict[str, list[float]] = {}
    usable = (len(held_out) - 1) // CONTEXT * CONTEXT
    for start in range(0, usable, CONTEXT):
        block = held_out[None, start : start + CONTEXT + 1]
        logits = {"target": target(block[:, :-1]), "draft": draft(block[:, :-1])}
        for name, values in logits.items():
            sums.setdefault(f"{name}_loss", []).append(cross_entropy(values, block).item())
        agree = logits["target"].argmax(-1) == logits["draft"].argmax(-1)
        sums.setdefault("argmax_agreement", []).append(agree.float().mean().item())
        for temperature in (0.7, 1.0, 1.5):
            p, q = (values.div(temperature).softmax(-1) for values in logits.values())
            sums.setdefault(f"sum_min_T{temperature}", []).append(torch.minimum(p, q).sum(-1).mean().item())
            sums.setdefault(f"sum_prod_T{temperature}", []).append((p * q).sum(-1).mean().item())
    return {"held_out_tokens": usable, **{name: round(float(np.mean(v)), 4) for name, v in sums.items()}}


def export(model: Llama, work: Path, folder: Path) -> None:
    """Write a model folder that mlx_lm.load takes: fp16 safetensors, config, tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": value.detach().half().contiguous() for name, value in model.named_parameters()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "mlx"})
    (folder / "model.safetensors").chmod(0o644)
    shape = model.shape
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "bos_token_id": None,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text((work / "tokenizer.json").read_text(encoding="utf-8"), encoding="utf-8")
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2) + "\n")


def main() -> None:
    """Run one stage, or all of them in order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--stage", choices=["all", "target", "draft", "distil", "export"], default="all")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every token budget, for a quick trial")
    options = parser.parse_args()
    work = options.output / "work"
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    texts, held_out_texts = load_corpus(options.corpus)
    tokenizer = train_tokenizer(texts, work)
    ids, held_out = encode(tokenizer, texts), encode(tokenizer, held_out_texts)
    print(f"{len(ids)} training tokens, {len(held_out)} held out", flush=True)
    networks = {name: Llama(shape) for name, shape in SHAPES.items()}

    def wanted(stage: str) -> bool:
        return options.stage in ("all", stage)

    def run(stage: str, name: str, start: str | None, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
        if start:
            networks[name].load_state_dict(torch.load(work / f"{start}.pt", weights_only=True))
        budget = BUDGETS[stage]
        budget = Budget(int(budget.tokens * options.scale), budget.long_share, budget.rate)
        fit(stage, networks[name], ids, budget, loss_of)
        torch.save(networks[name].state_dict(), work / f"{stage}.pt")

    if wanted("target"):
        run("target", "target", None, cross_entropy)
    if wanted("draft"):
        run("draft", "draft", None, cross_entropy)
    if options.stage != "target":
        networks["target"].load_state_dict(torch.load(work / "target.pt", weights_only=True))
        networks["target"].eval()
    if wanted("distil"):
        run("distil", "draft", "draft", distillation(networks["target"]))
    if wanted("export"):
        networks["draft"].load_state_dict(torch.load(work / "distil.pt", weights_only=True))
        figures = evaluate(networks["target"], networks["draft"], held_out)
        for name, network in networks.items():
            export(network, work, options.output / name)
            figures[f"{name}_parameters"] = sum(p.numel() for p in network.parameters())
            figures[f"{name}_shape"] = asdict(network.shape)
        figures["training_tokens"] = len(ids)
        (options.output / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
