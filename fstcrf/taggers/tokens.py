"""`TokenTagger`: the base of taggers that give each token a label on each tape."""

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
    """A tagger that gives each token a label on each tape: a CRF or a composition of CRFs."""

    @abstractmethod
    def _lattices(
        self, sentences: Data, evidence: Evidence | None, *, streamed: bool = False
    ) -> TaggedLattices:
        """Return the lattice of each sentence, restricted and biased by the evidence.

        `streamed`: potentials are computed anew for each question, to save memory.
        """

    def _decode(self, request: Request) -> Answer:
        lattices = self._lattices(request.sentences, request.evidence(self.tapes), streamed=True)
        return lattices.answer(
            request.n,
            lattices.on[: len(self.tapes)],
            request.budget,
            request.threads,
            strict=request.strict,
            probabilities=request.probabilities,
            tapes=request.tapes,
        )

    def _as_transducer(self) -> TokenTagger[LabelsT]:
        return self

    def _posterior(self, request: Request, evidence: Evidence | None) -> Distributions:
        """Return the distribution over the labellings of each sentence, given the evidence."""
        return self._lattices(request.sentences, evidence).posterior(
            request.budget, request.threads
        )

    def marginals_all(
        self,
        sentences: Data,
        *,
        forced: Sequence[Forced | None] | Columns | None = None,
        bias: Bias | None = None,
        threads: int = 1,
        on_no_path: OnNoPath = "error",
    ) -> list[Any]:
        """Return the probability of each label at each token; see `Tagger.marginals_all`."""
        if on_no_path != "error":
            return super().marginals_all(
                sentences, forced=forced, bias=bias, threads=threads, on_no_path=on_no_path
            )
        request = Request.of(sentences, self.label_sets, forced, bias)
        lattices = self._lattices(sentences, request.evidence(self.tapes), streamed=True)
        rows = lattices.marginals(threads=threads)
        if len(lattices.on) == len(self.tapes):
            return rows
        return [row[0] if len(self.tapes) == 1 else row[: len(self.tapes)] for row in rows]
