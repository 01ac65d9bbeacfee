"""Token classifiers of Hugging Face, tiny and with random weights, decoded from their logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.calibration import fit_temperature
from fstcrf.ext.tokens import Pieces, TokenDecoder
from tests.support.bert import LABELS, tiny_classifier, tiny_tokenizer

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = ["the", "an", "##na", "bo", "##b", "ber", "##lin", "met", "in", "##g", "s", "a", "."]
TEXT = "Anna met Bob in Berlin . the Bobbing Bo sings in Berlin. " * 6


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"), WORDS)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return tiny_classifier(tokenizer, seed=0).eval()


def encoded(tokenizer: Any, texts: list[str], **options: Any) -> Any:
    return tokenizer(
        texts, return_tensors="pt", return_offsets_mapping=True, padding=True, **options
    )


def logits_of(model: Any, encoding: Any) -> Any:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return model(**{name: encoding[name] for name in names}).logits


def test_a_batch_of_texts(model: Any, tokenizer: Any) -> None:
    texts = [TEXT[:60], "Bob", "", "Berlin."]
    encoding = encoded(tokenizer, texts)
    logits = logits_of(model, encoding)
    assert logits.requires_grad
    decoder = TokenDecoder(model.config.id2label)
    documents = Pieces.from_encoding(encoding, logits, texts)
    found = decoder.decode_all(documents)
    assert found[2] == []
    assert sum(map(len, found)) > 3
    for k, text in enumerate(texts):
        one = encoded(tokenizer, [text])
        rows = logits_of(model, one)[0].detach().numpy()
        alone = decoder.decode(rows, one["offset_mapping"][0], one.word_ids(0), text)
        assert [s[:3] for s in alone] == [s[:3] for s in found[k]]
        assert [s[3] for s in alone] == pytest.approx([s[3] for s in found[k]], abs=1e-4)
        begins = [0, *(i + 1 for i, c in enumerate(text) if c == " ")]
        assert all(s.start in begins or text[s.start] == "." for s in found[k])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_logits_of_any_precision(model: Any, tokenizer: Any, dtype: str) -> None:
    encoding = encoded(tokenizer, [TEXT[:60]])
    logits = logits_of(model, encoding)
    decoder = TokenDecoder(LABELS)
    want = decoder.decode_all(Pieces.from_encoding(encoding, logits))[0]
    half = decoder.decode_all(Pieces.from_encoding(encoding, logits.to(getattr(torch, dtype))))[0]
    assert len(half) == pytest.approx(len(want), abs=2)


@pytest.mark.parametrize(("size", "stride"), [(12, 4), (16, 0), (20, 15)])
def test_long_documents_in_windows(model: Any, tokenizer: Any, size: int, stride: int) -> None:
    options = {"truncation": True, "max_length": size, "stride": stride}
    texts = [TEXT, "Anna", TEXT[7:90]]
    encoding = encoded(tokenizer, texts, return_overflowing_tokens=True, **options)
    documents = Pieces.from_encoding(encoding, logits_of(model, encoding), texts)
    assert len(documents) == 3
    decoder = TokenDecoder(LABELS)
    whole = encoded(tokenizer, texts)
    pieces = Pieces.from_encoding(whole, logits_of(model, whole), texts)
    for one, other in zip(decoder.lattices(documents), decoder.lattices(pieces), strict=True):
        assert len(one) == len(other)
    assert [s[:3] for s in decoder.decode_all(documents)[1]] == [
        s[:3] for s in decoder.decode_all(pieces)[1]
    ]


def test_a_decoder_beside_its_model(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    decoder = TokenDecoder(model.config.id2label, thresholds=0.3)
    decoder.save(tmp_path / "decoder.json")
    again = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path)
    encoding = encoded(tokenizer, [TEXT])
    rows = logits_of(again, encoding)
    documents = Pieces.from_encoding(encoding, rows)
    known = TokenDecoder.load(tmp_path / "decoder.json")
    assert known.labels == tuple(LABELS)
    assert known.decode_all(documents) == decoder.decode_all(documents)


def test_held_out_documents(model: Any, tokenizer: Any) -> None:
    """Labels drawn from the model at temperature 2 say that it is too sure."""
    texts = [TEXT[k : k + 150].strip() for k in range(0, 150, 5)]
    encoding = encoded(tokenizer, texts)
    documents = Pieces.from_encoding(encoding, logits_of(model, encoding), texts)
    decoder = TokenDecoder(LABELS)
    hot = decoder.replaced(temperature=2.0).lattices(documents)
    gold = [lattice.sample(1, seed=k)[0] for k, lattice in enumerate(hot)]
    found = fit_temperature(decoder.lattices(documents), gold)
    assert found == pytest.approx(2.0, rel=0.3)


def test_one_text_given_by_itself(model: Any, tokenizer: Any) -> None:
    decoder, text = TokenDecoder(LABELS), "Anna met Bob"
    encoding = encoded(tokenizer, [text])
    rows = logits_of(model, encoding).detach().numpy()
    want = decoder.decode_all(Pieces.from_encoding(encoding, rows, [text]))
    alone = tokenizer(text, return_offsets_mapping=True)
    for given in (rows, rows[0]):
        assert decoder.decode_all(Pieces.from_encoding(alone, given, [text])) == want


def test_encodings_that_say_too_little(model: Any, tokenizer: Any) -> None:
    encoding = tokenizer(["Anna"], return_tensors="pt")
    rows = logits_of(model, encoding)
    with pytest.raises(ValueError, match="return_offsets_mapping"):
        Pieces.from_encoding(encoding, rows)
    encoding = encoded(tokenizer, ["Anna", "Bob"])
    with pytest.raises(ValueError, match="a row for each"):
        Pieces.from_encoding(encoding, np.zeros((1, 3, 9)))
    with pytest.raises(ValueError, match="1 texts for an encoding of 2"):
        Pieces.from_encoding(encoding, logits_of(model, encoding), ["Anna"])
    words = tokenizer(
        [["An", "na"]], is_split_into_words=True, return_offsets_mapping=True, return_tensors="pt"
    )
    with pytest.raises(ValueError, match="not into words"):
        TokenDecoder(LABELS).decode_all(Pieces.from_encoding(words, logits_of(model, words)))
