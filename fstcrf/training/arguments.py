"""The arguments of a training: structs of options that belong together.

`fstcrf.CRF.train` takes them. The command line and TOML files name the same options without the
structs: `fstcrf.training.options` turns one form into the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.text.features import FeatureFunction, TemplateSet
from fstcrf.text.sentences import Data
from fstcrf.training.executors.executor import Executor
from fstcrf.training.loop import Progress
from fstcrf.training.memory import ExpectedMemory
from fstcrf.training.record import TrainedTagger
from fstcrf.training.settings import Needs, Settings

_HAS_READS = Needs(
    lambda values: values.get("reads", True),
    "is for the taggers of reads=, and there are none",
)
_PASSES = Needs(
    lambda values: values.get("reads", True) or values["passing"] == "best",
    "is for the taggers of reads=, and there are none",
)


# --- Options that models and records keep ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Chain(Settings):
    """The structure of a chain CRF: its label histories and its weights."""

    order: Annotated[
        Literal[0, 1, 2], Meta(description="how many earlier labels a label depends on")
    ] = 1
    pairs: Annotated[
        Literal["supported", "complete"],
        Meta(description="weights of the pairs of attribute and label that occur, or of all"),
    ] = "supported"
    transitions: Annotated[
        Literal["observed", "all"],
        Meta(description="weights of the pairs of labels that occur, or of all"),
        Needs(lambda values: values["order"] != 0, "needs an order above 0"),
    ] = "observed"
    ends: Annotated[bool, Meta(description="weights for the first and the last label")] = False
    min_frequency: Annotated[
        float | None,
        Meta(
            description="drop weights whose feature (attribute and label, or pair of labels) "
            "occurs less often; a feature counts with its value (CRFsuite's feature.minfreq)"
        ),
    ] = None
    scheme: Annotated[
        str | None,
        Meta(
            description="leave out transitions that are illegal in io, iob1, iob2 (bio), bioes "
            "(iobes), bilou, bmes or bmewo, or that are not observed; iob1:iob2 also converts the "
            "gold labels of the training text and of `dev` from the first scheme to the second"
        ),
    ] = None
    start_label: Annotated[
        str | None,
        Meta(description="order 2: the label assumed before a sentence; O if that is a label"),
        Needs(lambda values: values["order"] == 2, "needs order 2, not {order}"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AttributeOptions(Settings):
    """The attributes of tokens that a model has."""

    boundary: Annotated[
        Literal["pad", "skip"],
        Meta(description="outside the sentence, make attributes like _B-1 (pad) or no attributes"),
    ] = "pad"
    min_count: Annotated[int, Meta(ge=1, description="drop attributes that fewer tokens have")] = 1
    hash_bits: Annotated[int | None, Meta(description="hash the attributes into 2^K rows")] = None


@dataclass(frozen=True, kw_only=True)
class GoldOptions(Settings):
    """The interpretation of gold labels."""

    on_illegal: Annotated[
        Literal["error", "repair", "skip"],
        Meta(
            description="gold labels that break their `scheme`: an error; the spans that "
            "conlleval reads in them; or their sentences are left out"
        ),
    ] = "error"
    partial: Annotated[
        bool | None,
        Meta(
            description="read _ as an unknown label and a|b as one of several labels; by default "
            "for column files, and not for columns of CoNLL-U, which use them as values"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PassingOptions(Settings):
    """Labels of earlier taggers on the training text."""

    jackknife: Annotated[
        int | None,
        Meta(
            ge=2,
            description="cut the text into K folds; the taggers of `reads`, trained again on the "
            "others, label each",
        ),
        _HAS_READS,
    ] = None
    passing: Annotated[
        Literal["best", "nbest", "marginals"],
        Meta(
            description="output of the taggers of `reads` that features see: their best labels; "
            "several labellings, each by its probability; or the probability of each label, as "
            "the value of the attributes that read it"
        ),
        _PASSES,
    ] = "best"
    candidates: Annotated[
        int,
        Meta(ge=1, description="how many labellings `passing` 'nbest' takes"),
        Needs(
            lambda values: values["passing"] == "nbest", "needs passing 'nbest', not {passing!r}"
        ),
    ] = 5


@dataclass(frozen=True, kw_only=True)
class PatienceOption(Settings):
    """When held-out data ends training."""

    patience: Annotated[
        int,
        Meta(ge=1, description="stop after N iterations without improvement on `dev`"),
        Needs(
            lambda values: values.get("dev", True),
            "is for the held-out data of dev=, and there is none",
        ),
    ] = 10


@dataclass(frozen=True, kw_only=True)
class SeedOption(Settings):
    """The source of random numbers."""

    seed: Annotated[
        int,
        Meta(ge=0, description="random seed for the order of sentences, if the method shuffles"),
    ] = 0


# --- The structs of a call ------------------------------------------------------------------------


@dataclass(frozen=True)
class Features(AttributeOptions):
    """What computes the attributes of tokens.

    Parameters
    ----------
    template : TemplateSet, text, path or callable, optional
        Feature templates, or a feature function. Without either, the data has attributes itself.
    boundary : {"pad", "skip"}
        Outside the sentence, templates make attributes like ``_B-1`` ("pad"), or none ("skip").
    min_count : int
        Attributes that fewer tokens have are dropped.
    hash_bits : int, optional
        The attributes are hashed into 2^hash_bits rows.
    """

    template: TemplateSet | str | os.PathLike[str] | FeatureFunction | None = None


@dataclass(frozen=True)
class Gold(GoldOptions):
    """The gold labels of the training text, and how much each sentence counts.

    Parameters
    ----------
    labels : str or sequence of sequences of str
        The column of the labels, or the labels of each sentence.
    weights : sequence of float, optional
        The weight of each sentence.
    class_weights : mapping of str to float, optional
        The weight of a sentence is multiplied by the mean of its gold labels' weights; a label
        that is absent has the weight 1.
    on_illegal : {"error", "repair", "skip"}
        Gold labels that break the scheme of the model are an error; or they are repaired as
        conlleval reads them; or their sentences are skipped.
    partial : bool, optional
        Whether ``_`` is an unknown label and ``a|b`` one of several. By default it is so in column
        files, and not in the columns of CoNLL-U, which use both as values.
    """

    flat_names: ClassVar[Mapping[str, str]] = {"labels": "target"}
    labels: str | Sequence[Sequence[str]] | None = None
    _: KW_ONLY
    weights: Sequence[float] | Floats | None = None
    class_weights: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Reads(PassingOptions):
    """The earlier taggers whose labels the features see.

    Parameters
    ----------
    taggers : sequence of CRF
        The templates read their labels as ``%y[0,TAPE]``, a feature function as columns. The
        taggers that they read must be among them.
    jackknife : int, optional
        The text is cut into this many folds; the taggers, trained again on the others, label each.
    passing : {"best", "nbest", "marginals"}
        The features see the best labels; several labellings, each by its probability; or the
        probability of each label, as the value of the attributes that read it.
    candidates : int
        How many labellings `passing` "nbest" takes.
    """

    flat_names: ClassVar[Mapping[str, str]] = {"taggers": "reads"}
    taggers: Sequence[TrainedTagger] = ()


@dataclass(frozen=True)
class Dev(PatienceOption):
    """Held-out data: the best iteration on it is kept.

    The score is F of spans if the labels are spans, else accuracy.

    Parameters
    ----------
    data : Corpus or sequence of sentences
    target : sequence of sequences of str, optional
        The gold labels, if the target of training is no column.
    patience : int
        Training ends after this many iterations without a better score.
    """

    flat_names: ClassVar[Mapping[str, str]] = {"data": "dev", "target": "dev_target"}
    data: Data | None = None
    _: KW_ONLY
    target: Sequence[Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Run(SeedOption):
    """How a training runs.

    Only `seed` changes the model, and Ctrl-C if it ends the training.

    Parameters
    ----------
    threads : int
        The result does not depend on it.
    seed : int
        Random seed for the order of sentences, if the method shuffles.
    report : callable, optional
        It is called with the `Progress` of each iteration.
    expect : callable, optional
        It is called before training starts, with the memory that training is expected to take,
        within about 10 % from 100 MB on (less if l1 drops weights). An error that it raises ends
        the call. It is not called for methods other than "lbfgs", and on systems without
        ``/proc``, because the memory is not counted there.
    checkpoint : path, optional
        File for the state of training, saved every `checkpoint_every` iterations, and when Ctrl-C
        ends training after the current iteration. A second Ctrl-C ends training at once; the file
        then has the state before. A file that exists is not overwritten without `resume`.
    checkpoint_every : int, optional
        None: the state is saved only when Ctrl-C ends training.
    resume : bool
        Continue from `checkpoint`, to the same result bit for bit. If there is no such file,
        training begins at the start, so that one call serves the first run and later ones.
    keep_on_interrupt : bool
        On Ctrl-C return the best model so far.
    executor : Executor, optional
        Works on the text part by part: ``ProcessExecutor(2)``, ``DaskExecutor(client)``, see
        `fstcrf.training.executors`. It needs templates, the likelihood, "lbfgs", and no `reads` or
        `start`. The model has the same bits for any number of workers, and without an executor.
    memory_limit : int, optional
        Bytes for the work on a text that may be larger than memory; the rest lies in files that
        are mapped. Index and weights are not counted. The model has the same bits.

    Raises
    ------
    OptionError
        A number is out of its range, or an option needs a checkpoint.
    """

    threads: int = 1
    report: Callable[[Progress], None] | None = None
    expect: Callable[[ExpectedMemory], None] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = 10
    resume: bool = False
    keep_on_interrupt: bool = False
    executor: Executor | None = None
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("report", "expect"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise OptionError(f"{name} is {function!r}, expected a function")
        path, interval = self.checkpoint, self.checkpoint_every
        whole_number(self.threads, "threads", least=1)
        if self.resume and path is None:
            raise OptionError("resume needs a checkpoint to go on from")
        if interval is not None:
            whole_number(interval, "checkpoint_every", least=1)
        if path is None and interval not in (None, 10):
            raise OptionError("checkpoint_every needs a checkpoint to write to")
