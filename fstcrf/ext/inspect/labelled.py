"""The sentences of a file with their gold labels, sorted by the number of errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Ints, Ragged
from fstcrf.evaluate.labellings import written_alike
from fstcrf.ext.pipelines.trained import Decode, TrainedPipeline
from fstcrf.lattices import Answer
from fstcrf.lazy import made_once
from fstcrf.taggers import JointCRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import OUTSIDE


class QuietPipeline(TrainedPipeline):
    """A pipeline whose answers are shown one by one, each with a note whether it is proven."""

    def _count_unproven(self, answer: Answer) -> int:
        """Return 0, because no warning is needed."""
        del answer
        return 0


@dataclass(frozen=True, eq=False)
class LabelledText:
    """The sentences of a file, and how a composition labels them.

    A column called like a tape has its gold labels.
    """

    composition: JointCRF
    decode: Decode
    corpus: Corpus

    @property
    def tapes(self) -> list[str]:
        """The tapes that have gold labels."""
        return [tape for tape in self.composition.tapes if tape in self.corpus.columns]

    @made_once
    def best(self) -> dict[str, list[str]]:
        """The best labels of these tapes, one string a token; "": there is no path."""
        answer = QuietPipeline(self.composition, self.decode).decode(self.corpus, on_no_path="skip")
        return {tape: answer[tape].column(missing="").strings() for tape in self.tapes}

    @made_once
    def gold(self) -> dict[str, list[str]]:
        """The gold labels, one string a token, in the scheme of the tagger."""
        tokens, gold = list(Ragged(self.corpus.offsets).slices()), {}
        for tape, best in self.best.items():
            labels = [label or OUTSIDE for label in best]
            alike, _ = written_alike([labels[t] for t in tokens], self.corpus.column_lists(tape))
            gold[tape] = [label for sentence in alike for label in sentence]
        return gold

    @made_once
    def errors(self) -> Ints:
        """Number of tokens with a wrong label on some tape, for each sentence."""
        wrong = np.zeros(self.corpus.n_tokens, dtype=bool)
        for tape, gold in self.gold.items():
            wrong |= np.asarray(self.best[tape], dtype=object) != np.asarray(gold, dtype=object)
        return Ragged(self.corpus.offsets).filtered(wrong).lengths.astype(np.int32)

    @made_once
    def order(self) -> Ints:
        """The sentences that have tokens, those with most errors first."""
        full = np.flatnonzero(Ragged(self.corpus.offsets).lengths)
        if self.tapes:
            full = full[np.argsort(-self.errors[full], kind="stable")]
        return full.astype(np.int32)
