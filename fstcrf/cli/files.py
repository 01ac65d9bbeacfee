"""A model as the options of ``fstcrf tag`` change it, and any file tagged by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.models import Model, constrained, load_model
from fstcrf.cli.questions import question
from fstcrf.cli.sources import InputFile, model_input
from fstcrf.cli.tagging import Outcomes, tag_file
from fstcrf.cli.weights import weighted
from fstcrf.ext.arrow.command import is_parquet, tag_table
from fstcrf.ext.documents.command import check_alone, tag_documents
from fstcrf.lazy import LazyModule
from fstcrf.taggers import CRF, Composition, JointCRF, Tagger
from fstcrf.taggers.tagger import Normalize

if TYPE_CHECKING:
    from fstcrf.taggers import pipelines, product
else:  # plain tagging does not wait for them
    product = LazyModule("fstcrf.taggers.product")
    pipelines = LazyModule("fstcrf.taggers.pipelines")


@dataclass(frozen=True)
class FileTagger:
    """Tags files as options ask.

    Parameters
    ----------
    model : CRF or JointCRF
        Under the grammars of the options, with their weights.
    options : mapping of str to value
        Options of ``fstcrf tag``.
    decode : {"cascade", "marginals", "joint", "product", "chain"}, optional
    flag : str
        The option that chooses how tapes are decided.
    """

    model: Model
    options: Mapping[str, Any]
    decode: Any
    flag: str

    @classmethod
    def of(cls, model_path: str, options: Mapping[str, Any]) -> FileTagger:
        """Load a model and change it according to the options; UsageError if that is impossible."""
        model = load_model(model_path)
        decode, flag = _asked(options)
        return cls(_changed(model, options, decode), options, decode, flag)

    def tag(self, path: str, output: str) -> Outcomes:
        """Write a file again, with the requested answers; errors name the file."""
        if is_parquet(path):
            return tag_table(self.tagger(), path, output, self.options)
        source = self._source(path)
        if self.options["document_consistency"]:
            return tag_documents(self.model, source, path, output, dict(self.options))
        tagger = self.tagger()
        asked = question(tagger, self.options, tape="tape")
        return tag_file(tagger, source, path, output, asked)

    def check_text(self) -> None:
        """Raise the UsageError of options that text cannot be tagged with."""
        self._source(None)
        if not self.options["document_consistency"]:
            question(self.tagger(), self.options, tape="tape")

    def tagger(self) -> Tagger:
        """Return the requested decoder; UsageError if there is no such way to decide."""
        if self.decode in (None, "joint"):
            return self.model
        if isinstance(self.model, CRF) or len(self.model.tapes) == 1:
            raise click.UsageError(f"{self.flag} is for compositions: the model has one tape")
        if not isinstance(self.model, JointCRF):
            raise click.UsageError(f"{self.flag} is for taggers of tokens; one here is of segments")
        return pipelines.TrainedPipeline(self.model, self.decode)

    def _source(self, path: str | None) -> InputFile:
        options = self.options
        if not options["document_consistency"]:
            check_alone(dict(options))
        how = {name: options[name] for name in ("columns", "kind", "separator", "fill")}
        return model_input(self.model, path=path, **how)


def _changed(model: Model, options: Mapping[str, Any], decode: str | None) -> Model:
    """Return a model with other weights, of another kind, and under more grammars.

    Raises
    ------
    click.UsageError
        Weights of tapes that are decided one by one.
    """
    one_by_one = decode in ("cascade", "marginals")
    if options["weights"] is not None:
        if not isinstance(model, Composition) or one_by_one:
            raise click.UsageError("--weights is for taggers that decide together")
        model = weighted(model, options["weights"])
    if options["normalize"] is not None:
        model = _normalized(model, options["normalize"], decode)
    if options["grammar"]:
        model = constrained(model, options["grammar"])
    return model


def _normalized(model: Model, normalize: Normalize, decode: str | None) -> Model:
    """Return a composition with the requested way to multiply.

    Raises
    ------
    click.UsageError
        A model with one tape, or tapes decided separately; another option with the same role.
    """
    if isinstance(model, CRF) or len(model.tapes) == 1:
        raise click.UsageError("--normalize is for compositions: the model has one tape")
    if not isinstance(model, JointCRF):
        raise click.UsageError("--normalize is for taggers of tokens; one here is of segments")
    if decode not in (None, "joint"):
        raise click.UsageError(f"--normalize cannot go with --decode {decode}")
    return replace(model, normalize=normalize)


def _asked(options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the way to decide tapes, and the option that chose it.

    Raises
    ------
    click.UsageError
        Two options choose it.
    """
    if options["joint"] is None:
        return options["decode"], "--decode"
    decode = "joint" if options["joint"] else "cascade"
    if options["decode"] is not None:
        raise click.UsageError(f"--{decode} cannot go with --decode")
    return decode, f"--{decode}"
