"""Token classifiers of Hugging Face, tiny and with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LABELS = ["O", *(f"{a}-{kind}" for kind in ("PER", "LOC") for a in "BIES")]


def tiny_tokenizer(folder: Path, pieces: Sequence[str]) -> Any:
    """Return a tokenizer of these word pieces; its vocabulary goes to the folder."""
    transformers = pytest.importorskip("transformers")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *pieces]), "utf-8")
    return transformers.BertTokenizerFast(str(folder / "vocab.txt"))


def tiny_classifier(tokenizer: Any, seed: int) -> Any:
    pytest.importorskip("torch").manual_seed(seed)
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        initializer_range=1.0,
    )
    return transformers.AutoModelForTokenClassification.from_config(config)
