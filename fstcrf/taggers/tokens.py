"""What taggers have in common that give each token a label on each tape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fstcrf.lattices.answer import Answer
from fstcrf.taggers.evidence import Bias, Columns, Evidence, Forced, Request
from fstcrf.taggers.tagger import Composable, LabelsT, OnNoPath
from fstcrf.text.sentences import Data

if TYPE_CHECKING:
    from fstcrf.lattices.distributions import Distributions
    from fstcrf.taggers.tagged import TaggedLattices


class TokenTagger(Composable[LabelsT]):
    """A tagger that gives each token a label on each tape: a CRF, or several composed.

    All questions go to its lattices.
    """

    @abstractmethod
    def transducers(
        self, sentences: Data, known: Evidence | None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, with what is known of its labels put in.

        `streamed`: potentials are dropped after each question, and made anew for the next one.
        """

    def decoded(self, asked: Request) -> Answer:
        """Return what `decode` does; see `Tagger.decoded`."""
        lattices = self.transducers(asked.sentences, asked.evidence(self.tapes), streamed=True)
        return lattices.answer(
            asked.n,
            lattices.on[: len(self.tapes)],
            asked.budget,
            asked.threads,
            strict=asked.strict,
            probabilities=asked.probabilities,
            tapes=asked.tapes,
        )

    def as_transducer(self) -> TokenTagger[LabelsT]:
        """Return a tagger with the same legal labellings that says where all of them have died."""
        return self

    def posterior(self, asked: Request, known: Evidence | None) -> Distributions:
        """Return the distributions over the labellings of sentences, with what is known put in."""
        return self.transducers(asked.sentences, known).posterior(asked.budget, asked.threads)

    def marginals_all(
        self,
        sentences: Data,
        *,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
        threads: int = 1,
        on_no_path: OnNoPath = "error",
    ) -> list[Any]:
        """Return the probability of each label at each token; as for `Tagger.marginals_all`."""
        if on_no_path != "error":
            return super().marginals_all(
                sentences, forced=forced, bias=bias, threads=threads, on_no_path=on_no_path
            )
        asked = Request.of(sentences, self.label_sets, forced, bias)
        lattices = self.transducers(sentences, asked.evidence(self.tapes), streamed=True)
        rows = lattices.marginals(threads=threads)
        if len(lattices.on) == len(self.tapes):
            return rows
        return [row[0] if len(self.tapes) == 1 else row[: len(self.tapes)] for row in rows]
