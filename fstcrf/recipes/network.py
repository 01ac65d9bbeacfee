"""A small network for the recipe ``neural``: words, characters, a BiLSTM; PyTorch, from scratch.

Its scores of labels are trained by cross-entropy token by token, by a CRF layer, or by one under a
grammar. Nothing is downloaded.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fstcrf.arrays import Array, Longs
from fstcrf.errors import DataError
from fstcrf.files import atomic_write
from fstcrf.lazy import optional
from fstcrf.machines.grammar import Grammar

Loss: TypeAlias = Literal["softmax", "crf", "crf under grammar"]  # the loss of a network

UNDER_GRAMMAR: Loss = "crf under grammar"
LOSSES: tuple[Loss, ...] = ("softmax", "crf", UNDER_GRAMMAR)

_ADVICE = "the recipe neural needs PyTorch: pip install 'fstcrf[torch]'"
_LONGEST = 20  # characters of a word that are read
_UNKNOWN = 1  # number of unknown words; 0 is padding
_BATCH = 256  # sentences whose scores are computed at once
STEPS = 100  # steps of a round, at least: of few sentences it has several passes
_POOL = 20  # batches that are drawn together and sorted by length
_WORD, _CHARACTER, _FILTERS, _CASE = 100, 25, 50, 8  # sizes of the vectors of each
_FORGOTTEN = 0.3  # share of words that occur once and are taken for unknown ones, each time


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    rate: float = 0.002  # step size of Adam
    dropout: float = 0.4  # of the BiLSTM's inputs and outputs
    hidden: int = 100  # cells of each direction
    batch: int = 16  # sentences of a step
    rounds: int = 40  # at most: passes over the sentences, as many as `STEPS` steps take
    patience: int = 6  # rounds without a better F on held-out data, after which training ends


@dataclass(frozen=True, slots=True)
class NetworkVocabulary:
    """Numbers of words (in lower case) and of characters; 0 is padding, 1 is unknown."""

    words: Mapping[str, int]
    characters: Mapping[str, int]
    once: frozenset[int]  # words that occur once in training

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> NetworkVocabulary:
        counts = Counter(word.lower() for sentence in sentences for word in sentence)
        words = {word: k for k, word in enumerate(sorted(counts), 2)}
        letters = sorted({c for sentence in sentences for word in sentence for c in word})
        once = frozenset(words[word] for word, n in counts.items() if n == 1)
        return cls(words, {c: k for k, c in enumerate(letters, 2)}, once)

    def numbers(self, sentences: Sequence[Sequence[str]]) -> list[Longs]:
        """Return of each sentence int64 [T, 2 + _LONGEST]: word, case, characters."""
        return [self._sentence(sentence) for sentence in sentences]

    def _sentence(self, sentence: Sequence[str]) -> Longs:
        found = np.zeros((len(sentence), 2 + _LONGEST), dtype=np.int64)
        for row, word in zip(found, sentence, strict=True):
            row[0] = self.words.get(word.lower(), _UNKNOWN)
            row[1] = _case(word)
            letters = [self.characters.get(c, _UNKNOWN) for c in word[:_LONGEST]]
            row[2 : 2 + len(letters)] = letters
        return found


def _case(word: str) -> int:
    """Return 1 to 6: lower case, capitalised, capitals, digits, letters mixed, other signs."""
    if word.islower():
        return 1
    if word.isupper():
        return 3
    if word[:1].isupper() and word[1:].islower():
        return 2
    if any(c.isdigit() for c in word):
        return 4
    return 5 if any(c.isalpha() for c in word) else 6


class Network:
    """A network with its loss; `grammar` belongs to the loss ``crf under grammar``."""

    def __init__(
        self,
        vocabulary: NetworkVocabulary,
        labels: tuple[str, ...],
        loss: Loss,
        grammar: Grammar,
        options: NetworkOptions,
        seed: int,
    ) -> None:
        torch = optional("torch", _ADVICE)
        layers = optional("fstcrf.ext.torch", _ADVICE)
        torch.set_num_threads(1)  # reproducible bits; a second thread would be slower
        torch.manual_seed(seed)
        self._torch, self._seed = torch, seed
        self._random = np.random.default_rng(seed)
        self.vocabulary, self.labels, self.loss, self.options = vocabulary, labels, loss, options
        self._once = np.asarray(sorted(vocabulary.once), dtype=np.int64)
        nn, width = torch.nn, _WORD + _FILTERS + _CASE
        self.layers = nn.ModuleDict(
            {
                "word": nn.Embedding(len(vocabulary.words) + 2, _WORD, padding_idx=0),
                "case": nn.Embedding(7, _CASE, padding_idx=0),
                "character": nn.Embedding(
                    len(vocabulary.characters) + 2, _CHARACTER, padding_idx=0
                ),
                "filters": nn.Conv1d(_CHARACTER, _FILTERS, 3, padding=1),
                "onwards": nn.LSTM(width, options.hidden, batch_first=True),
                "backwards": nn.LSTM(width, options.hidden, batch_first=True),
                "scores": nn.Linear(2 * options.hidden, len(labels)),
                "dropout": nn.Dropout(options.dropout),
            }
        )
        if loss != "softmax":
            ruled = grammar if loss == UNDER_GRAMMAR else None
            self.layers["crf"] = layers.CRFLayer(labels, ruled)

    def _scores(self, rows: Sequence[Longs]) -> tuple[Any, Any]:
        """Return scores [B, T, L] and lengths [B] of sentences."""
        torch, layers = self._torch, self.layers
        lengths = torch.tensor([len(row) for row in rows])
        x = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(row) for row in rows], batch_first=True
        )
        read = [layers["word"](x[..., 0]), layers["case"](x[..., 1]), self._spelt(x[..., 2:])]
        said = self._contexts(layers["dropout"](torch.cat(read, -1)), lengths)
        return layers["scores"](layers["dropout"](said)), lengths

    def _spelt(self, letters: Any) -> Any:
        """Convolve characters, [B, T, F]; each word of the batch once, however often it occurs."""
        torch, layers = self._torch, self.layers
        each = np.ascontiguousarray(letters.numpy()).view(f"V{8 * _LONGEST}").reshape(-1)
        words, place = np.unique(each, return_inverse=True)
        spelling = torch.from_numpy(words.view(np.int64).reshape(-1, _LONGEST))
        found = layers["filters"](layers["character"](spelling).transpose(1, 2)).amax(-1).relu()
        return found[torch.from_numpy(place)].unflatten(0, letters.shape[:2])

    def _contexts(self, x: Any, lengths: Any) -> Any:
        """Return the outputs of the two LSTMs for each token, [B, T, 2H].

        Sentences are turned round for the second one: padded batches take half the time.
        """
        torch, layers = self._torch, self.layers
        at = torch.arange(x.shape[1]).expand(x.shape[:2])
        back = lengths[:, None] - 1 - at
        back = torch.where(back >= 0, back, at)[..., None]
        turned = layers["backwards"](x.gather(1, back.expand_as(x)))[0]
        onwards = layers["onwards"](x)[0]
        return torch.cat([onwards, turned.gather(1, back.expand_as(turned))], -1)

    def scores(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """Return the scores of each sentence, float32 [T, L]; of the softmax log probabilities."""
        torch = self._torch
        self.layers.eval()
        found: list[Array] = [np.zeros((0, len(self.labels)), dtype=np.float32) for _ in sentences]
        there = [k for k, sentence in enumerate(sentences) if len(sentence)]
        there.sort(key=lambda k: len(sentences[k]))
        with torch.no_grad():
            for begin in range(0, len(there), _BATCH):
                batch = there[begin : begin + _BATCH]
                values, _ = self._scores(self.vocabulary.numbers([sentences[k] for k in batch]))
                if self.loss == "softmax":
                    values = values.log_softmax(-1)
                for k, row in zip(batch, values.numpy(), strict=True):
                    found[k] = row[: len(sentences[k])].copy()
        return found

    def chain(self) -> dict[str, Any]:
        """Return scores of successions and ends, as `fstcrf.Lattices.from_arrays` takes them."""
        if self.loss == "softmax":
            return {}
        crf = self.layers["crf"]
        names = ("transitions", "initial", "final")
        return {name: getattr(crf, name).detach().numpy() for name in names}

    def rounds(self, sentences: Sequence[Sequence[str]], tags: Sequence[Longs]) -> Iterator[float]:
        """Train round by round; yield the loss of each, a token."""
        self._torch.manual_seed(self._seed)  # of dropout, independent of earlier draws
        rows = self.vocabulary.numbers(sentences)
        there = np.asarray([k for k, row in enumerate(rows) if len(row)])
        adam = self._torch.optim.Adam(self.layers.parameters(), lr=self.options.rate, fused=True)
        steps = -(-len(there) // self.options.batch)
        passes = -(-STEPS // max(1, steps))
        tokens = max(1, passes * sum(map(len, rows)))
        for _ in range(self.options.rounds):
            self.layers.train()
            yield sum(self._pass(rows, tags, there, adam) for _ in range(passes)) / tokens

    def _pass(self, rows: Sequence[Longs], tags: Sequence[Longs], there: Longs, adam: Any) -> float:
        total = 0.0
        for batch in self._batches(rows, there):
            loss = self._loss([rows[k] for k in batch], [tags[k] for k in batch])
            adam.zero_grad()
            (loss / len(batch)).backward()
            self._torch.nn.utils.clip_grad_norm_(self.layers.parameters(), 5.0)
            adam.step()
            total += float(loss.detach())
        return total

    def _batches(self, rows: Sequence[Longs], there: Longs) -> list[Longs]:
        """Return drawn batches, each of sentences of similar lengths: padding is short."""
        order, size = self._random.permutation(there), self.options.batch
        found = []
        for begin in range(0, len(order), _POOL * size):
            pool = sorted(order[begin : begin + _POOL * size], key=lambda k: len(rows[k]))
            found += [np.asarray(pool[at : at + size]) for at in range(0, len(pool), size)]
        return [found[k] for k in self._random.permutation(len(found))]

    def _loss(self, rows: Sequence[Longs], tags: Sequence[Longs]) -> Any:
        torch = self._torch
        scores, lengths = self._scores([self._forgetful(row) for row in rows])
        gold = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(row) for row in tags], batch_first=True, padding_value=-100
        )
        if self.loss == "softmax":
            return torch.nn.functional.cross_entropy(
                scores.flatten(0, 1), gold.flatten(), ignore_index=-100, reduction="sum"
            )
        return self.layers["crf"](scores, gold, lengths)

    def _forgetful(self, row: Longs) -> Longs:
        """Take some words that occur once for unknown ones."""
        rare = np.isin(row[:, 0], self._once) & (self._random.random(len(row)) < _FORGOTTEN)
        if not rare.any():
            return row
        changed = row.copy()
        changed[rare, 0] = _UNKNOWN
        return changed

    def parameters(self) -> dict[str, Array]:
        return {name: value.numpy().copy() for name, value in self.layers.state_dict().items()}

    def set_parameters(self, parameters: Mapping[str, Array]) -> None:
        torch = self._torch
        self.layers.load_state_dict(
            {name: torch.from_numpy(np.array(value)) for name, value in parameters.items()}
        )


def write_parameters(parameters: Mapping[str, Array], path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **dict(parameters))  # type: ignore[arg-type]
    with atomic_write(path) as file:
        file.write(buffer.getbuffer())


def read_parameters(path: Path) -> dict[str, Array]:
    """Read parameters; DataError if the file is damaged."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"no parameters of a network: {error}", path=str(path)) from None
