"""The estimator: its parameters, training, answers and scores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import name_tuple
from fstcrf.arrays import Floats
from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.ext.sklearn.reading import (
    ADVICE,
    Read,
    boxed,
    checked,
    cut,
    is_frame,
    is_table,
    named_labels,
    read_sentences,
    read_table,
    utils,
    validation,
    values_of,
)
from fstcrf.lazy import optional
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.training import MethodName
from fstcrf.text.corpus import Corpus, Span
from fstcrf.text.corpus.schemes import has_spans
from fstcrf.text.features import FeatureFunction, TemplateSet
from fstcrf.training.arguments import Features
from fstcrf.training.options import DEFAULTS, FLAT_NAMES, flat_options, not_there, structured
from fstcrf.training.settings import MethodSettings, Settings

joblib = optional("joblib", ADVICE)
multiclass = optional("sklearn.utils.multiclass", ADVICE)

if TYPE_CHECKING:

    class _Estimator:
        """The base class of estimators, untyped in scikit-learn."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
            """Return the parameters."""

        def set_params(self, **params: Any) -> _Estimator:
            """Set parameters."""

        def set_fit_request(self, **requested: bool | str | None) -> CRFTagger:
            """Set the metadata that `fit` receives, in scikit-learn's routing."""

        def set_score_request(self, **requested: bool | str | None) -> CRFTagger:
            """Set the metadata that `score` receives."""

        def __sklearn_tags__(self) -> Any: ...

    class _Classifier:
        """The same."""

else:
    _Estimator = optional("sklearn.base", ADVICE).BaseEstimator
    _Classifier = optional("sklearn.base", ADVICE).ClassifierMixin

Labels: TypeAlias = Sequence[Sequence[Any]] | ArrayLike
"""A list of labels for each sentence; for a table, an array [N]."""

# Options of training that are parameters of the estimator, or arguments of `fit`.
_OTHERWISE = {
    *("data", "target", "template", "weights", "class_weights", "threads", "seed", "tape"),
    *("scheme", "order", "method", "l2", "max_iterations"),
}


class CRFTagger(_Classifier, _Estimator):
    """A conditional random field as an estimator.

    Parameters
    ----------
    template : TemplateSet, text, path, callable or Features, optional
        Feature templates or a feature function, as for `CRF.train`, for sentences of columns and
        for tables. By default the input has the features: dicts or attribute lists; each column of
        a DataFrame; each number of an array.
    columns : sequence of str, optional
        Names of the columns where sentences are lists of tuples; of lists of strings ``"word"``.
    sentence : str or int, optional
        For a table: the column that identifies sentences.
    grammar : Grammar or str, optional
        Constraints on the labels that are predicted; a text has the syntax of a ``.grm`` file.
        ``options={"grammar": grammar}`` makes a hard grammar a part of the tagger's structure in
        training, as `CRF.train` has it.
    on_no_path : {"error", "relax"}
        The treatment of sentences without legal label sequences; as for `Tagger.decode`.
    scheme : str, optional
        Scheme of the labels, such as ``"iob2"``: illegal sequences are never predicted.
        ``"iob2:bioes"`` converts labels from the first scheme, and predicts the second.
    order : {0, 1, 2}
        How many earlier labels a label depends on.
    method : str or MethodSettings
        Optimiser; as for `CRF.train`. ``LBFGS(l1=0.1)`` has options of the method.
    l2 : float, optional
        Strength of the penalty l2 |w|²; the method has a default.
    max_iterations : int, optional
        Most iterations; the method has a default.
    class_weight : mapping of label to float, or "balanced", optional
        A sentence's weight is multiplied by the mean of its labels'. balanced: labels weigh
        N / (number of labels × their count).
    options : mapping of str to object, optional
        Further arguments of `CRF.train`, such as ``{"structure": Chain(pairs="complete")}``, or
        their options by name: ``{"pairs": "complete"}``.
    metric : {"auto", "f", "accuracy"}
        The result of `score`: F of spans, or the share of tokens that are right; "auto" is F if
        the labels are labels of spans.
    n_jobs : int, optional
        Number of threads; −1 for all processors. The answers do not depend on it.
    random_state : int, RandomState or None
        Seed of methods that shuffle; 0 if `None`.
    tape : str
        Name of the labels. Taggers with different names compose: ``ner.tagger_ @ pos.tagger_``.

    Attributes
    ----------
    classes_ : array of the labels, sorted
        Columns of `predict_proba`.
    crf_ : CRF
        The trained tagger.
    tagger_ : CRF or JointCRF
        The tagger that predicts: `crf_` under the grammar.
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
    tagger_: CRF | JointCRF
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        template: TemplateSet | str | os.PathLike[str] | FeatureFunction | Features | None = None,
        *,
        columns: Sequence[str] | None = None,
        sentence: str | int | None = None,
        grammar: Grammar | str | None = None,
        on_no_path: Literal["error", "relax"] = "error",
        scheme: str | None = None,
        order: Literal[0, 1, 2] = 1,
        method: MethodName | MethodSettings = "lbfgs",
        l2: float | None = None,
        max_iterations: int | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        options: Mapping[str, Any] | None = None,
        metric: Literal["auto", "f", "accuracy"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        tape: str = "label",
    ) -> None:
        self.template, self.columns, self.sentence = template, columns, sentence
        self.grammar, self.on_no_path, self.scheme, self.order = grammar, on_no_path, scheme, order
        self.method, self.l2, self.max_iterations = method, l2, max_iterations
        self.class_weight, self.options, self.metric = class_weight, options, metric
        self.n_jobs, self.random_state, self.tape = n_jobs, random_state, tape

    def set_params(self, **params: Any) -> CRFTagger:
        """Set parameters; ``method__l1`` and ``options__pairs`` set one option of a struct or dict.

        So a search by scikit-learn may vary them.

        Raises
        ------
        ValueError
            The estimator has no such parameter, or the parameter is no struct.
        """
        plain: dict[str, Any] = {}
        for name, value in params.items():
            argument, _, option = name.partition("__")
            inner: Any = plain.get(argument, getattr(self, argument, None))
            if not option:
                plain[name] = value
            elif isinstance(inner, Settings):
                set_before = {field: getattr(inner, field) for field in inner.fields_set}
                plain[argument] = type(inner)(**{**set_before, option: value})
            elif argument == "options":
                plain[argument] = {**(inner or {}), option: value}
            else:
                raise ValueError(f"{name}: {argument} is {inner!r}, expected a struct of settings")
        super().set_params(**plain)
        return self

    # --- Training -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Labels, sample_weight: ArrayLike | None = None) -> CRFTagger:  # noqa: N803
        """Train on sentences or a table.

        Parameters
        ----------
        X : sequence of sentences, or table
        y : sequence of sequences of labels, or array [N]
        sample_weight : float array, optional
            Weight of each sentence in training; for a table, of each row, equal for all rows of a
            sentence.

        Returns
        -------
        CRFTagger
            Itself.

        Raises
        ------
        DataError
            A number of labels that differs from sentences or tokens (the message names the
            sentence), or NaN.
        OptionError
            Parameters outside their range.
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
        names, values = named_labels(labels)
        flat = {
            "target": names,
            "weights": weights,
            "class_weights": self._class_weights(names, values),
            "threads": _threads(self.n_jobs),
            "seed": self._seed(),
            "tape": self.tape,
            **self._training(),
        }
        crf = CRF.train(read.sentences, **structured(flat))
        grammar = _grammar(self.grammar)
        self.crf_, self.tagger_ = crf, crf if grammar is None else crf & grammar
        found = [values.get(label, label) for label in crf.labels]
        self._order = np.asarray(sorted(range(len(found)), key=found.__getitem__), dtype=np.int64)
        kind = np.asarray(y).dtype if read.table else None
        self.classes_ = np.asarray([found[i] for i in self._order.tolist()], dtype=kind)
        self._table = read.table
        self.n_iter_ = 0 if crf.record is None else crf.record.iterations
        return self

    def _check_parameters(self) -> None:
        choices = {
            "on_no_path": ("error", "relax"),
            "metric": ("auto", "f", "accuracy"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                shown = " or ".join(map(repr, allowed))
                raise OptionError(f"{name} is {getattr(self, name)!r}, expected {shown}")

    def _training(self) -> dict[str, Any]:
        """Return the options of training by their flat names, without duplicates."""
        names = ("scheme", "order", "method", "l2", "max_iterations")
        own = {name: getattr(self, name) for name in names}
        more = flat_options(dict(self.options or {}))
        if twice := sorted(_OTHERWISE & more.keys()):
            raise OptionError(
                f"options contains {twice[0]!r}, which is already a parameter of the "
                "estimator: set it there"
            )
        odd = next((name for name in more if name not in FLAT_NAMES), None)
        if odd is not None:
            instead = not_there(odd, FLAT_NAMES, DEFAULTS)
            raise OptionError(f"options has {odd!r}, which is no option of CRF.train; {instead}")
        if "grammar" in more:
            more["grammar"] = _grammar(more["grammar"])
        return flat_options({"features": self.template, **own, **more})

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
                raise DataError(f"class_weight names {shown}, which are no labels in y")
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
            One for each sentence; for a table, the labels of its rows, [N].

        Raises
        ------
        NotFittedError
            The estimator is not fitted; this is scikit-learn's error.
        DataError
            Sentences or a table of another form than the fitted data.
        NoPathError
            No label sequence of a sentence is legal.
        """
        validation.check_is_fitted(self)
        read = self._read(X)
        answer = self.tagger_.decode(
            read.sentences, on_no_path=self.on_no_path, threads=_threads(self.n_jobs)
        )
        flat = self._sorted_classes()[answer.flat[0]]
        return flat if read.table else boxed(cut(flat.tolist(), answer.offsets))

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
            One for each sentence; for a table, float64 [N, L].

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
        return boxed(tables)

    def predict_log_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the natural logs of `predict_proba`; −inf for impossible labels."""
        found = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return np.log(found) if found.dtype != object else boxed([np.log(p) for p in found])

    def predict_spans(self, X: Any) -> list[Any]:  # noqa: N803
        """Return the spans of the best labels, each with its probability.

        Returns
        -------
        list of lists of (Span, float)
            A list for each sentence; for a table, one list, whose spans are rows of the table.

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
            Weight of each sentence; for a table, of each row, equal for all rows of a sentence.

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
        rows = cut(flat.tolist(), read.offsets) if read.table else flat.tolist()
        predicted = [list(map(str, row)) for row in rows]
        spans = self.metric == "f" or (self.metric == "auto" and has_spans(self.crf_.labels))
        if sample_weight is None:
            if spans:
                return evaluate_spans(gold, predicted).f
            return evaluate_tokens(gold, predicted).accuracy
        given = validation._check_sample_weight(sample_weight, X)  # noqa: SLF001 (as above)
        return _weighted_score(gold, predicted, read.weights(given), spans=spans)

    # --- Reading ------------------------------------------------------------------------------

    def _read(self, X: Any, *, y: Any = None, fitting: bool = False) -> Read:  # noqa: N803
        """Return sentences or a table in the form of a CRF's input."""
        if not fitting and is_table(X) != self._table:
            forms = "a table", "a list of sentences"
            was, now = forms if self._table else forms[::-1]
            raise DataError(f"the tagger was fitted on {was}, and X is {now}")
        if isinstance(X, Corpus):
            return Read(X, X.offsets, table=False)
        if not is_table(X):
            if fitting:
                vars(self).pop("n_features_in_", None)
            listed = None if self.columns is None else name_tuple(self.columns, "columns")
            return read_sentences(X, listed, texts=self.template is not None)
        if is_frame(X):
            validation.validate_data(self, X, skip_check_array=True, reset=fitting)
            names = list(X.columns)
            columns = {name: checked(name, values_of(X, name)) for name in names}
        else:
            kind = "numeric" if self.template is None else None
            extra = {} if y is None else {"y": y}
            if y is not None:
                multiclass.check_classification_targets(y)
            found = validation.validate_data(self, X, **extra, reset=fitting, dtype=kind)
            array = found if y is None else found[0]
            columns = {i: column.tolist() for i, column in enumerate(array.T)}
        return read_table(columns, self.sentence, texts=self.template is not None)

    # --- What scikit-learn asks ---------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Return the tags: labels are sequences, which "classifier" would have stratified."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.input_tags.string = True
        tags.input_tags.dict = True
        return tags


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


def _grammar(given: Grammar | str | None) -> Grammar | None:
    if given is None or isinstance(given, Grammar):
        return given
    if isinstance(given, str):
        return Grammar.from_text(given)
    raise OptionError(f"grammar is {given!r}, expected a fstcrf.Grammar or the text of one")


def _threads(n_jobs: object) -> int:
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise OptionError(f"n_jobs is {n_jobs!r}, expected a positive number or −1")
    return int(joblib.effective_n_jobs(n_jobs))
