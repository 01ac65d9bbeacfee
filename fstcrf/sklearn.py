"""A tagger as an estimator of scikit-learn: fit, predict, score, in pipelines and searches.

What it learns from and tags is given in one of two forms, and answered in the same:

- *sentences*: a list of sentences, each a list of feature dicts or attribute lists, of rows of
  columns or of strings, a mapping of column to list, or a DataFrame; labels are a list for each;
- a *table*: a DataFrame or an array [N, F] with a row for each token; labels are an array [N].
  Where `sentence` names a column, successive rows with one value there are a sentence; else every
  row is one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import groupby, pairwise
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.corpus import Corpus, Sentence, Span
from fstcrf.corpus.schemes import has_spans
from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.features import TemplateSet, is_literal
from fstcrf.grammar import Grammar
from fstcrf.joint import CRF, Composition
from fstcrf.lazy import optional
from fstcrf.model.reading import Data

__all__ = ["CRFTagger"]

_ADVICE = "fstcrf.sklearn needs scikit-learn 1.6 or later: pip install 'fstcrf[sklearn]'"
joblib = optional("joblib", _ADVICE)
multiclass = optional("sklearn.utils.multiclass", _ADVICE)
utils = optional("sklearn.utils", _ADVICE)
validation = optional("sklearn.utils.validation", _ADVICE)

if TYPE_CHECKING:

    class _Estimator:
        """What scikit-learn has no types for."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
            """Return the parameters."""

        def set_fit_request(self, **requested: bool | str | None) -> CRFTagger:
            """Say which metadata `fit` gets; of scikit-learn's routing."""

        def set_score_request(self, **requested: bool | str | None) -> CRFTagger:
            """Say which metadata `score` gets."""

        def __sklearn_tags__(self) -> Any: ...

        def __getstate__(self) -> dict[str, Any]: ...

    class _Classifier:
        """The same."""

else:
    _Estimator = optional("sklearn.base", _ADVICE).BaseEstimator
    _Classifier = optional("sklearn.base", _ADVICE).ClassifierMixin

T = TypeVar("T")
Labels: TypeAlias = Sequence[Sequence[Any]] | ArrayLike
"""A list of labels for each sentence; of a table, an array [N]."""

_INTERCEPT = "(intercept)"  # an attribute that every row of numbers has
# Options of training that are something else here.
_OTHERWISE = (
    "data",
    "target",
    "template",
    "weights",
    "class_weights",
    "grammar",
    "threads",
    "seed",
)
_WORD = "word"  # the column of sentences that are lists of strings


class CRFTagger(_Classifier, _Estimator):
    """A conditional random field as an estimator.

    Parameters
    ----------
    template : TemplateSet, text or path, optional
        Feature templates, for sentences of columns and for tables. Without one, features are what
        is given: dicts or attribute lists; of a DataFrame each column, of an array each number.
    columns : sequence of str, optional
        Names of the columns where sentences are lists of tuples; of lists of strings ``"word"``.
    sentence : str or int, optional
        Of a table: the column that says which rows are one sentence.
    grammar : Grammar or str, optional
        What labels must obey; a text is that of a ``.grm`` file.
    grammar_in : {"decoding", "training"}
        decoding: the tagger is trained without it and decides under it. training: it is a part of
        the tagger's structure, as `CRF.train` has it; hard grammars only.
    on_no_path : {"error", "relax"}
        What to do where no label sequence of a sentence is legal; as for `Tagger.decode`.
    scheme : str, optional
        Of the labels, ``"iob2"`` or another: what it forbids is never predicted. ``"iob2:bioes"``:
        they are converted, and predicted as the second.
    order : {0, 1, 2}
        How many labels before it a label depends on.
    method : str
        Optimiser; as for `CRF.train`.
    l1, l2 : float, optional
        Penalties: l1 |w| and l2 |w|²; the method's defaults when absent.
    max_iterations : int, optional
        The method's default when absent.
    features : {"supported", "complete"}
        Which pairs of attribute and label have a weight: those seen in training, or all.
    min_count : int
        Attributes that occur fewer times are left out.
    class_weight : mapping of label to float, or "balanced", optional
        A sentence's weight is multiplied by the mean of its labels'. balanced: labels weigh
        N / (number of labels × their count).
    options : mapping of str to object, optional
        Further options of `CRF.train`, by name.
    metric : {"auto", "f", "accuracy"}
        What `score` is: F of spans, the share of tokens that are right; auto: F where labels are
        spans.
    n_jobs : int, optional
        Threads; −1 for all processors. The answers do not depend on it.
    random_state : int, RandomState or None
        Seed of methods that draw; 0 where None.

    Attributes
    ----------
    classes_ : array of the labels, sorted
        Columns of `predict_proba`.
    crf_ : CRF
        What was trained.
    tagger_ : CRF or Composition
        What decides: `crf_` under the grammar.
    n_iter_ : int
        Iterations of training.
    n_features_in_, feature_names_in_
        Of tables.

    Examples
    --------
    >>> X = [[{"w": "Anna"}, {"w": "slept"}], [{"w": "Bob"}, {"w": "met"}, {"w": "Anna"}]]
    >>> y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]]
    >>> tagger = CRFTagger(l2=0.1).fit(X, y)
    >>> tagger.predict(X).tolist()
    [['B-PER', 'O'], ['B-PER', 'O', 'B-PER']]
    >>> tagger.score(X, y)
    1.0
    """

    classes_: NDArray[Any]
    crf_: CRF
    tagger_: CRF | Composition
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        template: TemplateSet | str | os.PathLike[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        sentence: str | int | None = None,
        grammar: Grammar | str | None = None,
        grammar_in: Literal["decoding", "training"] = "decoding",
        on_no_path: Literal["error", "relax"] = "error",
        scheme: str | None = None,
        order: Literal[0, 1, 2] = 1,
        method: str = "lbfgs",
        l1: float | None = None,
        l2: float | None = None,
        max_iterations: int | None = None,
        features: Literal["supported", "complete"] = "supported",
        min_count: int = 1,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        options: Mapping[str, Any] | None = None,
        metric: Literal["auto", "f", "accuracy"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.template, self.columns, self.sentence = template, columns, sentence
        self.grammar, self.grammar_in, self.on_no_path = grammar, grammar_in, on_no_path
        self.scheme, self.order, self.method = scheme, order, method
        self.l1, self.l2, self.max_iterations = l1, l2, max_iterations
        self.features, self.min_count, self.class_weight = features, min_count, class_weight
        self.options, self.metric = options, metric
        self.n_jobs, self.random_state = n_jobs, random_state

    # --- Training -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> CRFTagger:  # noqa: N803
        """Train on sentences or a table.

        Parameters
        ----------
        X : sequence of sentences, or table
        y : sequence of sequences of labels, or array [N]
        sample_weight : float array, optional
            What each sentence counts in training; of a table what each row does, the same for all
            rows of a sentence.

        Returns
        -------
        CRFTagger
            Itself.

        Raises
        ------
        DataError
            Labels that are not as many as sentences or tokens (it says in which sentence), NaN.
        OptionError
            Parameters outside what they may be.
        GrammarError
            A grammar that does not go with the labels.
        """
        self._check_parameters()
        if y is None:
            raise OptionError("CRFTagger requires y to be passed, but the target y is None")
        read = self._read(X, y=y, fitting=True)
        labels = read.labels(y)
        weights = None
        if sample_weight is not None:
            given = validation._check_sample_weight(  # noqa: SLF001 (as estimators of others do)
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            weights = read.weights(given)
        names, values = _named_labels(labels)
        grammar = self._grammar()
        inside = self.grammar_in == "training"
        crf = CRF.train(
            read.sentences,
            target=names,
            template=self.template,
            weights=weights,
            class_weights=self._class_weights(names, values),
            threads=_threads(self.n_jobs),
            grammar=grammar if inside else None,
            seed=self._seed(),
            **self._training(),
        )
        self.crf_ = crf
        self.tagger_ = crf
        if grammar is not None and not inside:
            self.tagger_ = crf & grammar
        found = [values.get(label, label) for label in crf.labels]
        self._order = np.asarray(sorted(range(len(found)), key=found.__getitem__), dtype=np.int64)
        kind = np.asarray(y).dtype if read.table else None
        self.classes_ = np.asarray([found[i] for i in self._order.tolist()], dtype=kind)
        self._table = read.table
        self.n_iter_ = 0 if crf.record is None else crf.record.iterations
        return self

    def _check_parameters(self) -> None:
        choices = {
            "grammar_in": ("decoding", "training"),
            "on_no_path": ("error", "relax"),
            "metric": ("auto", "f", "accuracy"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                shown = " or ".join(map(repr, allowed))
                raise OptionError(f"{name} is {getattr(self, name)!r}, expected {shown}")

    def _training(self) -> dict[str, Any]:
        """Return the options of training by name, each said once."""
        own = {
            "scheme": self.scheme,
            "order": self.order,
            "method": self.method,
            "l1": self.l1,
            "l2": self.l2,
            "max_iterations": self.max_iterations,
            "features": self.features,
            "min_count": self.min_count,
        }
        more = dict(self.options or {})
        twice = sorted({*own, *_OTHERWISE} & more.keys())
        if twice:
            raise OptionError(f"options has {twice[0]!r}, which has a parameter of its own")
        odd = next((name for name in more if name not in signature(CRF.train).parameters), None)
        if odd is not None:
            raise OptionError(f"options has {odd!r}, which is no option of CRF.train")
        return {**{name: value for name, value in own.items() if value is not None}, **more}

    def _grammar(self) -> Grammar | None:
        given = self.grammar
        if given is None or isinstance(given, Grammar):
            return given
        if isinstance(given, str):
            return Grammar.from_text(given)
        raise OptionError(f"grammar is {given!r}, expected a fstcrf.Grammar or the text of one")

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(utils.check_random_state(self.random_state).randint(2**31 - 1))

    def _class_weights(
        self, labels: Sequence[Sequence[str]], values: Mapping[str, Any]
    ) -> dict[str, float] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, Mapping):
            names = {value: name for name, value in values.items()}
            there = {v: w for v, w in self.class_weight.items() if v in names}
            if not there:
                shown = ", ".join(map(repr, self.class_weight))
                raise DataError(f"class_weight is of {shown}, none of which is a label of y")
            return {names[v]: float(w) for v, w in there.items()}  # folds may lack rare ones
        if self.class_weight != "balanced":
            raise OptionError(f"class_weight is {self.class_weight!r}, expected 'balanced'")
        found, counts = np.unique([x for row in labels for x in row], return_counts=True)
        shares = counts.sum() / (len(found) * counts)
        return dict(zip(found.tolist(), shares.tolist(), strict=True))

    # --- Answers ------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the best labels.

        Returns
        -------
        object array [n] of lists of labels
            One for each sentence; of a table the labels of its rows, [N].

        Raises
        ------
        NotFittedError
            Nothing is fitted; it is scikit-learn's.
        DataError
            Sentences or a table that are not as those that were fitted.
        NoPathError
            No label sequence of a sentence is legal.
        """
        validation.check_is_fitted(self)
        read = self._read(X)
        answer = self.tagger_.decode(
            read.sentences, on_no_path=self.on_no_path, threads=_threads(self.n_jobs)
        )
        flat = self._sorted_classes()[answer.flat[0]]
        return flat if read.table else _boxed(_cut(flat.tolist(), answer.offsets))

    def _sorted_classes(self) -> NDArray[Any]:
        """Return the classes in the order of the labels of the tagger."""
        classes = np.empty_like(self.classes_)
        classes[self._order] = self.classes_
        return classes

    def predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the probability of each label at each token, columns as in `classes_`.

        Returns
        -------
        object array [n] of float64 [T, L]
            One for each sentence; of a table float64 [N, L].

        Raises
        ------
        NotFittedError, DataError, NoPathError
            As `predict`.
        """
        validation.check_is_fitted(self)
        read = self._read(X)
        found = self.tagger_.marginals_all(read.sentences, threads=_threads(self.n_jobs))
        tables = [np.ascontiguousarray(p[:, self._order]) for p in found]
        if read.table:
            return np.concatenate([np.empty((0, len(self._order))), *tables])
        return _boxed(tables)

    def predict_log_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the natural logs of `predict_proba`; −inf for what is impossible."""
        found = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return np.log(found) if found.dtype != object else _boxed([np.log(p) for p in found])

    def predict_spans(self, X: Any) -> list[Any]:  # noqa: N803
        """Return the spans of the best labels, each with its probability.

        Returns
        -------
        list of lists of (Span, float)
            A list for each sentence; of a table one list, whose spans are rows of the table.

        Raises
        ------
        NotFittedError, DataError, NoPathError
            As `predict`.
        """
        validation.check_is_fitted(self)
        read = self._read(X)
        answer = self.tagger_.decode(
            read.sentences, on_no_path=self.on_no_path, threads=_threads(self.n_jobs)
        )
        found = [
            list(zip(spans, shares.tolist(), strict=True))
            for spans, shares in zip(answer.spans(), answer.span_probabilities(), strict=True)
        ]
        if not read.table:
            return found
        return [
            (Span(first + span.start, first + span.end, span.type), share)
            for first, spans in zip(answer.offsets.tolist(), found, strict=False)
            for span, share in spans
        ]

    def score(self, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """Return F of spans, or the share of tokens that are labelled right; see `metric`.

        Parameters
        ----------
        X : sequence of sentences, or table
        y : sequence of sequences of labels, or array [N]
        sample_weight : float array, optional
            What each sentence counts; of a table what each row does, the same for all rows of a
            sentence.

        Returns
        -------
        float in [0, 1]

        Raises
        ------
        NotFittedError, DataError, NoPathError
            As `predict`, and as `fit` of labels and weights.
        """
        validation.check_is_fitted(self)
        read = self._read(X)
        gold = [list(map(str, row)) for row in read.labels(y)]
        flat = self.predict(X)
        rows = _cut(flat.tolist(), read.offsets) if read.table else flat.tolist()
        predicted = [list(map(str, row)) for row in rows]
        spans = self.metric == "f" or (self.metric == "auto" and has_spans(self.crf_.labels))
        if sample_weight is None:
            if spans:
                return evaluate_spans(gold, predicted).f
            return evaluate_tokens(gold, predicted).accuracy
        given = validation._check_sample_weight(sample_weight, X)  # noqa: SLF001 (as above)
        return _weighted_score(gold, predicted, read.weights(given), spans=spans)

    # --- Reading ------------------------------------------------------------------------------

    def _read(self, X: Any, *, y: Any = None, fitting: bool = False) -> _Read:  # noqa: N803
        """Return sentences or a table as what a CRF takes."""
        if not fitting and _is_table(X) != self._table:
            forms = "a table", "a list of sentences"
            was, now = forms if self._table else forms[::-1]
            raise DataError(f"the tagger was fitted on {was}, and X is {now}")
        if isinstance(X, Corpus):
            return _Read(X, X.offsets, table=False)
        if not _is_table(X):
            if fitting:
                vars(self).pop("n_features_in_", None)
            return self._read_sentences(X)
        if _is_frame(X):
            validation.validate_data(self, X, skip_check_array=True, reset=fitting)
            names = list(X.columns)
            columns = {name: _checked(name, _values(X, name)) for name in names}
        else:
            kind = "numeric" if self.template is None else None
            extra = {} if y is None else {"y": y}
            if y is not None:
                multiclass.check_classification_targets(y)
            found = validation.validate_data(self, X, **extra, reset=fitting, dtype=kind)
            array = found if y is None else found[0]
            columns = {i: column.tolist() for i, column in enumerate(array.T)}
        return self._read_table(columns)

    def _read_table(self, columns: dict[Any, list[Any]]) -> _Read:
        size = len(next(iter(columns.values()), []))
        offsets = np.arange(size + 1)
        if self.sentence is not None:
            if self.sentence not in columns:
                shown = ", ".join(map(repr, columns))
                raise DataError(
                    f"no column {self.sentence!r} to tell sentences by; there are {shown}"
                )
            offsets = _runs(columns.pop(self.sentence), self.sentence)
        if self.template is not None:
            texts = {str(name): list(map(str, values)) for name, values in columns.items()}
            bounds = list(pairwise(offsets.tolist()))
            given = [{name: v[a:b] for name, v in texts.items()} for a, b in bounds]
            return _Read(Corpus.from_sentences(given), offsets, table=True)
        names = [name if isinstance(name, str) else f"x{name}" for name in columns]
        rows = [
            {_INTERCEPT: 1.0, **dict(zip(names, row, strict=True))}
            for row in zip(*columns.values(), strict=True)
        ]
        return _Read(_cut(rows, offsets), offsets, table=True)

    def _read_sentences(self, X: Iterable[Any]) -> _Read:  # noqa: N803
        try:
            sentences = list(X)
        except TypeError:
            raise DataError(f"X is {type(X).__name__}, expected sentences or a table") from None
        sentences = [self._columns(s) if _is_frame(s) else s for s in sentences]
        for number, one in enumerate(sentences):
            if isinstance(one, str) or not hasattr(one, "__len__"):
                raise DataError(
                    f"{one!r} is no sentence, expected a list with something for each token; "
                    "Reshape your data: a table has a row for each token and two dimensions",
                    sentence=number,
                )
        lengths = [len(_shaped(s)) for s in sentences]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        first = next((s for s in sentences if len(s)), None)
        if first is None or is_literal(first):
            return _Read(sentences, offsets, table=False)
        names = self.columns
        if not isinstance(first, Mapping | Sentence) and isinstance(first[0], str):
            name = _WORD if names is None else names[0]
            sentences = [{name: list(s)} for s in sentences]
        return _Read(Corpus.from_sentences(sentences, names), offsets, table=False)

    def _columns(self, frame: Any) -> Any:
        """Return a sentence that is a DataFrame as columns, without a template as dicts."""
        columns = {str(name): _checked(name, _values(frame, name)) for name in frame.columns}
        if self.template is not None:
            return {name: list(map(str, values)) for name, values in columns.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    # --- What scikit-learn asks ---------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Return the tags: labels are sequences, which "classifier" would have stratified."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.input_tags.string = True
        tags.input_tags.dict = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled; a grammar's rules are functions, which pickle has no way for."""
        state = dict(super().__getstate__())
        if isinstance(self.grammar, Grammar):
            wrapped = joblib.wrap_non_picklable_objects(self.grammar, keep_wrapper=False)
            state["grammar"] = wrapped
        return state


# --- Sentences and tables -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """What was given: B sentences with N tokens together, or a table of them."""

    sentences: Data
    offsets: Longs  # [B + 1]
    table: bool  # what is answered is flat then

    def labels(self, y: Any) -> list[list[Any]]:
        """Return the labels of each sentence; DataError where they are not as many."""
        if self.table:
            flat = _flat_labels(y)
            if len(flat) != self.offsets[-1]:
                raise DataError(f"{len(flat)} labels for {self.offsets[-1]} rows")
            return _cut(flat, self.offsets)
        rows = list(y)
        if len(rows) != len(self.offsets) - 1:
            raise DataError(
                f"labels of {len(rows)} sentences for {len(self.offsets) - 1} sentences: "
                "y has a list for each sentence"
            )
        for number, (row, size) in enumerate(zip(rows, np.diff(self.offsets), strict=True)):
            if isinstance(row, str) or not hasattr(row, "__len__"):
                raise DataError(f"its labels are {row!r}, expected a list", sentence=number)
            if len(row) != size:
                raise DataError(f"{len(row)} labels for {size} tokens", sentence=number)
            missing = next((t for t, label in enumerate(row) if _is_missing(label)), None)
            if missing is not None:
                raise DataError(
                    "no label, or NaN; '_' is one that is not known", sentence=number, token=missing
                )
        return [row.tolist() if hasattr(row, "tolist") else list(row) for row in rows]

    def weights(self, given: Floats) -> Floats:
        """Return the weight of each sentence, float64 [B]."""
        if self.table:
            first = given[self.offsets[:-1]]
            same = np.repeat(first, np.diff(self.offsets)) == given
            if not same.all():
                where = int(np.flatnonzero(~same)[0])
                raise DataError(
                    f"row {where} weighs {given[where]:g}, the first of its sentence something "
                    "else: a sentence has one weight"
                )
            given = first
        if not given.any():
            raise DataError("sample_weight is zero everywhere: no sentence counts in training")
        return given


def _is_frame(given: Any) -> bool:
    """Tell whether something is a DataFrame, of whatever library."""
    return hasattr(given, "columns") and hasattr(given, "shape") and len(given.shape) == 2


def _is_table(given: Any) -> bool:
    if isinstance(given, Corpus):
        return False
    if _is_frame(given) or hasattr(given, "tocsr"):  # sparse: what checks arrays refuses it
        return True
    if not isinstance(given, Sequence) and hasattr(given, "__array__"):
        array = np.asarray(given)
        return array.ndim in {0, 2} or array.dtype != object
    first = next(iter(given), None) if isinstance(given, Sequence) else None
    return isinstance(first, Sequence) and bool(first) and isinstance(first[0], Number)


def _values(frame: Any, name: Any) -> list[Any]:
    column = frame[name]
    values: list[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def _checked(name: Any, values: list[Any]) -> list[Any]:
    """Return the values of a column; DataError where one is missing."""
    for row, value in enumerate(values):
        if _is_missing(value):
            raise DataError(f"column {name!r}, row {row}: NaN; fill it, or leave the sentence out")
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def _shaped(sentence: Any) -> Any:
    """Return something as long as a sentence: of columns one of them."""
    if isinstance(sentence, Mapping):
        return next(iter(sentence.values()), ())
    return sentence


def _runs(keys: list[Any], name: Any) -> Longs:
    """Return where runs of equal keys begin, int64 [B + 1]."""
    runs = [(key, len(list(group))) for key, group in groupby(keys)]
    offsets = np.concatenate([[0], np.cumsum([n for _, n in runs], dtype=np.int64)])
    seen: set[Any] = set()
    for (key, _), row in zip(runs, offsets.tolist(), strict=False):
        if key in seen:
            raise DataError(
                f"row {row}: sentence {key!r} of column {name!r} comes back; its rows must stand "
                "together: sort by that column"
            )
        seen.add(key)
    return offsets.astype(np.int64)


def _cut(flat: list[T], offsets: Longs) -> list[list[T]]:
    return [flat[a:b] for a, b in pairwise(offsets.tolist())]


def _boxed(items: Sequence[Any]) -> NDArray[Any]:
    """Return an object array [n], also of items of equal length."""
    boxes = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # all at once, arrays of one shape would be one array
        boxes[i] = item
    return boxes


# --- Labels ---------------------------------------------------------------------------------------


def _flat_labels(y: Any) -> list[Any]:
    flat = validation.column_or_1d(y, warn=True)
    if flat.dtype.kind == "f":
        utils.assert_all_finite(flat, input_name="y")
    values: list[Any] = flat.tolist()
    return _checked("y", values)


def _named_labels(rows: Sequence[Sequence[Any]]) -> tuple[list[list[str]], dict[str, Any]]:
    """Return labels as strings, and the label that each string is."""
    values: dict[str, Any] = {}
    for label in {label: None for row in rows for label in row}:
        if values.setdefault(str(label), label) != label:
            raise DataError(f"labels {label!r} and {values[str(label)]!r} are one as a string")
    kinds = {isinstance(value, str) for value in values.values()}
    if len(kinds) > 1:
        shown = ", ".join(repr(v) for v in list(values.values())[:4])
        raise DataError(f"labels are strings and other things ({shown}), expected one of both")
    return [list(map(str, row)) for row in rows], values


def _weighted_score(
    gold: list[list[str]], predicted: list[list[str]], weights: Floats, *, spans: bool
) -> float:
    """Return F of spans or accuracy, sentences counted by weight."""
    counts = np.empty((len(gold), 3))
    for b, (wanted, found) in enumerate(zip(gold, predicted, strict=True)):
        if spans:
            one = evaluate_spans([wanted], [found]).overall
            counts[b] = one.correct, one.guessed, one.gold
        else:
            right = evaluate_tokens([wanted], [found]).correct
            counts[b] = right, len(found), len(wanted)
    right, tried, wished = (weights @ counts).tolist()
    return 2 * right / (tried + wished) if tried + wished else 0.0


def _threads(n_jobs: object) -> int:
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise OptionError(f"n_jobs is {n_jobs!r}, expected a positive number or −1")
    return int(joblib.effective_n_jobs(n_jobs))
