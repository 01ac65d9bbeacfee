"""A sentence without tokens obeys a grammar whichever way it is asked.

Its only labelling is the empty one, which the grammar scores as `Grammar.score([])` does. Each door
says that score; −inf stands for a sentence without a path.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar, Lattice, Lattices
from fstcrf.constraints import ANY, at_least, at_most, bio, never, requires
from fstcrf.errors import ContradictionError, GrammarError, NoPathError
from fstcrf.ext.documents import DocumentTagger
from fstcrf.ext.gradients import Heads, likelihood
from fstcrf.lattices.emissions.batch import ArrayLattices
from fstcrf.lattices.emissions.reading import read_scores
from fstcrf.lattices.emissions.structure import ChainParameters
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import to_bytes
from fstcrf.taggers.pipelines import TrainedPipeline

LABELS = ("O", "B-X", "I-X")
TAPE = "y"

_ENDS = Grammar.from_arrays(LABELS, [[1, 1, 1], [1, 1, 1]], final=[-0.75, -0.25], tape=TAPE)

GRAMMARS = {
    "refuses": at_least(1, "X", tape=TAPE),
    "refuses, by an expression": Grammar.from_text(f"tape {TAPE};\nexport X = any+;"),
    "refuses, beside what accepts": at_most(3, "X", tape=TAPE) & at_least(1, "O", tape=TAPE),
    "accepts": at_most(1, "X", tape=TAPE) & bio(tape=TAPE),
    "accepts, folded": bio(tape=TAPE),
    "scores": at_least(1, "X", tape=TAPE, weight=-2.0),
    "scores in parts": at_least(2, "X", tape=TAPE, weight=-0.5) & _ENDS & bio(tape=TAPE),
    "scores one and refuses": at_least(2, "X", tape=TAPE, weight=-0.5)
    & at_least(1, "O", tape=TAPE),
    "scores a sum": requires("X", "O", tape=TAPE) & _ENDS,
}


@pytest.fixture(params=[*GRAMMARS.values()], ids=[*GRAMMARS])
def grammar(request: pytest.FixtureRequest) -> Grammar:
    found: Grammar = request.param
    return found


def _expected(grammar: Grammar) -> float:
    return grammar.bound({TAPE: LABELS}).score({TAPE: []})


def _or_dead(ask: Callable[[], Any]) -> float:
    """Return the score of the path that is found, −inf where NoPathError says there is none."""
    try:
        path = ask()
    except NoPathError as error:
        return -np.inf if error.constraints and "no tokens" in str(error) else np.nan
    assert not any(path.labels)
    assert path.probability == 1.0
    assert path.exact
    assert path.bound == path.score
    return float(path.score)


def _first(paths: list[Any]) -> float:
    assert len(paths) < 2
    return _or_dead(lambda: paths[0]) if paths else -np.inf


_DATA = [
    {"word": ["u", "v", "w"], "y": ["B-X", "I-X", "O"], "z": ["U", "V", "V"]},
    {"word": ["v", "w"], "y": ["O", "O"], "z": ["U", "U"]},
]
_SENTENCES: list[dict[str, list[str]]] = [{"word": ["u", "v"]}, {"word": []}, {"word": ["v", "w"]}]


@cache
def _tagger() -> CRF:
    corpus = Corpus.from_sentences(_DATA)
    return CRF.train(corpus, "y", "U:%x[0,word]\nB", tape=TAPE, max_iterations=5)


@cache
def _second() -> CRF:
    corpus = Corpus.from_sentences(_DATA)
    template = "U:%x[0,word]\nU2:%y[0,y]\nB"
    return CRF.train(corpus, "z", template, tape="z", reads=[_tagger()], max_iterations=5)


# --- Lattices -------------------------------------------------------------------------------------


def _lattice(tokens: int = 0, labels: tuple[str, ...] = LABELS, tape: str = TAPE) -> Any:
    return Lattice.from_arrays(
        labels, np.zeros((tokens, len(labels))), initial=np.ones(len(labels)), tape=tape
    )


def _moving(tokens: int = 0) -> Any:
    """Return a lattice whose tokens have successions of their own."""
    size = len(LABELS)
    steps = np.zeros((max(tokens - 1, 0), size, size))
    return Lattice.from_arrays(LABELS, np.zeros((tokens, size)), steps, tape=TAPE)


def _joint() -> Any:
    return fstcrf.compose(_lattice(), _lattice(labels=("U", "V"), tape="z"))


LATTICES: dict[str, Callable[[Grammar], Any]] = {
    "lattice": lambda g: _lattice() & g,
    "successions of tokens": lambda g: _moving() & g,
    "joint": lambda g: _joint() & g,
    "joint, composed under it": lambda g: fstcrf.compose(
        _lattice(), _lattice(labels=("U",), tape="z"), grammar=g
    ),
    "a part of a joint one": lambda g: (_lattice() & g) @ _lattice(labels=("U",), tape="z"),
    "lazy": lambda g: _lattice().constrained(g, search="lazy"),
    "expanded": lambda g: _lattice().constrained(g, search="expanded"),
    "tagger": lambda g: (_tagger() & g).lattice({"word": []}),
    "product": lambda g: (_product() & g).lattice({"word": []}),
}


@pytest.mark.parametrize("make", LATTICES.values(), ids=LATTICES.keys())
def test_lattices(make: Callable[[Grammar], Any], grammar: Grammar) -> None:
    lattice, score = make(grammar), _expected(grammar)
    nothing = tuple([()] * len(lattice.tapes)) if len(lattice.tapes) > 1 else ()
    assert _or_dead(lattice.best) == score
    assert _first(lattice.nbest(3)) == score
    assert _first(lattice.nbest(3, tapes=[TAPE])) == score
    assert lattice.log_partition() == score
    assert lattice.score(nothing) == score
    assert lattice.probability(nothing) == (score > -np.inf)
    assert lattice.without_grammar().log_partition() == 0.0
    assert lattice.weighted(2.0).log_partition() == score
    assert lattice.scale(2.0).log_partition() == 2.0 * score
    assert lattice.max_marginals() is not None
    sums = [
        *(lattice.marginals, lattice.arc_marginals, lattice.entropy, lattice.draw),
        *(lattice.minimum_risk, lattice.confidence, lambda: lattice.sample(2)),
        *(lambda: lattice.probable_spans(tape=TAPE), lambda: lattice.marginals(TAPE)),
        lambda: lattice.minimum_risk("span", tape=TAPE),
        lambda: lattice.span_probabilities([], tape=TAPE),
    ]
    for ask in sums:
        if score > -np.inf:
            assert ask() is not None
        else:
            with pytest.raises(NoPathError, match="no tokens"):
                ask()
    assert lattice._repr_html_()


def _intersected(grammar: Grammar) -> Any:
    from fstcrf.machines.grammar import intersect

    first, *others = grammar.bind({TAPE: LABELS})
    for acceptor in others:
        first = intersect(first, acceptor)
    return fstcrf.machines.grammar.Acceptor(
        ("",), first.labels, first.target, first.score, first.final
    )


# --- Scores as arrays -----------------------------------------------------------------------------


def _bare(grammar: Grammar) -> Grammar:
    """Return the grammar over the tape that arrays of scores have."""
    found = _intersected(grammar)
    return Grammar.from_acceptor(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("written_out", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_emissions(grammar: Grammar, dtype: Any, written_out: bool, threads: int) -> None:
    score, bare = _expected(grammar), _bare(grammar)
    scores = np.zeros((3, 2, 3), dtype=dtype)
    whole: Any = Lattices.from_arrays(LABELS, scores, lengths=[2, 0, 2])
    batch = ArrayLattices(whole.scores, whole.tape, whole.chain, bare, written_out=written_out)
    for n in (1, 2):
        answer = batch.decode(n, threads=threads)
        assert answer.scores.reshape(3, n)[1, 0] == score
        assert answer.dead.tolist() == [False, score == -np.inf, False]
        assert answer.probabilities.reshape(3, n)[1, 0] == (score > -np.inf)
        assert answer.bounds.reshape(3, n)[1, 0] == score
        assert answer.labels()[1] in ([], [[]])
    assert batch.log_partition()[1] == score
    assert batch.score([["O", "B-X"], [], ["O", "O"]])[1] == score
    assert batch.decode().marginals()[1].shape == (0, 3)
    assert [len(table) for table in batch.max_marginals()] == [2, 0, 2]
    asked: list[Any] = [batch.marginals, batch.entropy, batch.minimum_risk, batch.probable_spans]
    asked += [partial(batch.sample, 2), partial(batch.span_probabilities, [[], [], []])]
    for ask in asked:
        if score > -np.inf:
            assert len(ask()) == 3
        else:
            with pytest.raises(NoPathError, match="sentence 1: the sentence has no tokens"):
                ask()
    one = fstcrf.decode(scores[:, :0], labels=LABELS, grammar=bare)
    assert one.scores.tolist() == [score] * 3


def _loss(grammar: Grammar, *, skip: bool) -> Any:
    heads = Heads((("label", LABELS),), (), _bare(grammar))
    scores = read_scores(np.zeros((3, 2, 3)), [2, 0, 2], n_labels=3)
    chain = ChainParameters(np.zeros((3, 3)), np.zeros(3), np.zeros(3))
    tags = np.asarray([[1, 0], [0, 0], [1, 0]], dtype=np.int32)
    return likelihood(heads, [scores], [chain], {}, [tags], skip=skip)


def test_losses(grammar: Grammar) -> None:
    if _expected(grammar) == -np.inf:
        with pytest.raises(NoPathError, match="sentence 1: it has no tokens"):
            _loss(grammar, skip=False)
    else:
        assert _loss(grammar, skip=False).loss[1] == 0.0
    skipped = _loss(grammar, skip=True)
    assert skipped.loss[1] == 0.0
    assert skipped.skipped.tolist() == [False, _expected(grammar) == -np.inf, False]


def test_layers(grammar: Grammar) -> None:
    torch = pytest.importorskip("torch")
    from fstcrf.ext.torch import CRFLayer

    score, tags = _expected(grammar), [[1, 0], [0, 0]]
    emissions = torch.zeros((2, 2, 3), requires_grad=True)
    for on_no_path in ("error", "skip"):
        layer = CRFLayer(LABELS, grammar=_bare(grammar), on_no_path=on_no_path)
        assert layer.decode(emissions, [2, 0]).scores[1] == score
        assert layer.decode(emissions, [2, 0]).dead.tolist() == [False, score == -np.inf]
        if score == -np.inf and on_no_path == "error":
            with pytest.raises(NoPathError, match="sentence 1: it has no tokens"):
                layer(emissions, torch.tensor(tags), [2, 0])
            continue
        loss = layer(emissions, torch.tensor(tags), [2, 0])
        alone = layer(emissions[:1], torch.tensor(tags[:1]), [2])
        assert float(loss.detach()) == float(alone.detach())
        loss.backward()
        assert float(emissions.grad[1].abs().sum()) == 0.0
    joint = CRFLayer({"y": LABELS, "z": ["U", "V"]}, grammar=grammar, on_no_path="skip")
    both = {"y": emissions, "z": torch.zeros((2, 2, 2))}
    assert joint.decode(both, [2, 0]).scores[1] == score


# --- Taggers --------------------------------------------------------------------------------------


def _product() -> Any:
    return fstcrf.compose(_tagger(), _second(), normalize="product")


def _chain() -> Any:
    return fstcrf.compose(_tagger(), _second(), normalize="chain")


TAGGERS: dict[str, Callable[[Grammar], Any]] = {
    "tagger": lambda g: _tagger() & g,
    "tagger, lazy": lambda g: _tagger().constrained(g, search="lazy"),
    "product": lambda g: _product() & g,
    "product, composed under it": lambda g: fstcrf.compose(
        _tagger(), _second(), normalize="product", grammar=g
    ),
    "chain": lambda g: _chain() & g,
    "documents": lambda g: DocumentTagger(_tagger() & g),
    "documents, constrained": lambda g: DocumentTagger(_product()) & g,
    "pipeline, joint": lambda g: TrainedPipeline(_chain(), "joint") & g,
    "pipeline, product": lambda g: TrainedPipeline(_product(), "product") & g,
}


@pytest.mark.parametrize("make", TAGGERS.values(), ids=TAGGERS.keys())
def test_taggers(make: Callable[[Grammar], Any], grammar: Grammar) -> None:
    tagger, score = make(grammar), _expected(grammar)
    documents = isinstance(tagger, DocumentTagger)
    sentences = Corpus.from_sentences(_SENTENCES)
    alive = score > -np.inf
    nothing: Any = [] if len(tagger.tapes) == 1 else ([], [])
    for n in (1,) if documents else (1, 2):
        answer = tagger.decode(sentences, n=n, on_no_path="skip")
        assert answer.scores.reshape(3, n)[1, 0] == score
        assert answer.dead.tolist() == [False, not alive, False]
        assert answer.probabilities.reshape(3, n)[1, 0] == alive
        assert answer.bounds.reshape(3, n)[1, 0] == score
    relaxed = tagger.decode(sentences, on_no_path="relax")
    assert not relaxed.dead.any()
    assert relaxed.changed.tolist() == ["", "" if alive else "grammar", ""]
    assert relaxed.scores[1] == (score if alive else 0.0)
    assert _first(tagger.nbest_all(sentences, 1)[1]) == score
    assert (tagger.paths_all(sentences)[1] is not None) == alive
    asked: list[Callable[[], Any]] = [
        lambda: tagger.decode(sentences),
        lambda: tagger.tag_all(sentences)[1],
        lambda: tagger.tag_columns(sentences)[0].ids,
    ]
    if not documents:
        asked.append(lambda: tagger.tag({"word": []}))
    for ask in asked:
        if alive:
            assert ask() is not None
        else:
            with pytest.raises(NoPathError, match="the sentence has no tokens"):
                ask()
    if alive:
        assert tagger.tag_all(sentences)[1] == nothing
    for n in () if documents else (1, 2):
        if not alive:
            with pytest.raises(NoPathError, match="sentence 1: the sentence has no tokens"):
                tagger.decode(sentences, n=n)


@pytest.mark.parametrize("make", TAGGERS.values(), ids=TAGGERS.keys())
def test_marginals_of_taggers(make: Callable[[Grammar], Any], grammar: Grammar) -> None:
    tagger, sentences = make(grammar), Corpus.from_sentences(_SENTENCES)
    if getattr(tagger._joint(), "_conditional", False):
        return  # of a chain, they have no closed form under a grammar
    if _expected(grammar) == -np.inf:
        with pytest.raises(NoPathError, match="sentence 1: the sentence has no tokens"):
            tagger.marginals_all(sentences)
        answer = tagger.decode(sentences, on_no_path="skip")
        assert answer.marginals(TAPE)[1].shape == (0, 3)
        for way in ("skip", "relax"):
            several = [answer.marginals(tape) for tape in answer.tapes]
            tables = tagger.marginals_all(sentences, on_no_path=way)
            split = [(one,) for one in tables] if len(several) == 1 else tables
            for wanted, found in zip(zip(*several, strict=True), split, strict=True):
                for a, b in zip(wanted, found, strict=True):
                    np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    else:
        found = tagger.marginals_all(sentences)[1]
        assert (found if len(tagger.tapes) == 1 else found[0]).shape == (0, 3)


@pytest.mark.parametrize("decoder", ["cascade", "marginals"])
def test_taggers_one_after_the_other(decoder: Any, grammar: Grammar) -> None:
    """Their scores are log probabilities; that of the only labelling is 0."""
    pipeline, alive = TrainedPipeline(_chain(), decoder) & grammar, _expected(grammar) > -np.inf
    for n in (1, 2):
        answer = pipeline.decode(_SENTENCES, n=n, on_no_path="skip")
        assert answer.scores.reshape(3, n)[1, 0] == (0.0 if alive else -np.inf)
        assert answer.probabilities.reshape(3, n)[1, 0] == alive
        assert answer.dead[1] == (not alive)
    for ask in (pipeline.decode, pipeline.tag_all, lambda s: pipeline.tag(s[1])):
        if alive:
            assert ask(_SENTENCES) is not None
        else:
            with pytest.raises(NoPathError, match="the sentence has no tokens"):
                ask(_SENTENCES)


@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_cascades(grammar: Grammar, normalize: Any) -> None:
    composition = fstcrf.compose(_tagger(), _second(), normalize=normalize) & grammar
    questions: list[Any] = [_SENTENCES, [{"word": []}], Corpus.from_sentences(_SENTENCES)]
    for sentences in questions:
        if _expected(grammar) > -np.inf:
            sizes = [len(column.ids) for column in composition.cascade(sentences)]
            assert sizes == [sum(len(s["word"]) for s in _SENTENCES if len(sentences) > 1)] * 2
        else:
            where = "sentence 1: " if len(sentences) > 1 else "sentence 0: "
            with pytest.raises(NoPathError, match=f"{where}the sentence has no tokens"):
                composition.cascade(sentences)


def test_chains(grammar: Grammar) -> None:
    score = _expected(grammar)
    chain = _chain() & grammar
    empty: dict[str, list[str]] = {"word": []}
    assert _or_dead(lambda: chain.lattice(empty, n=2).best()) == score
    assert _first(chain.nbest_all([empty], 2)[0]) == score
    assert _first(chain.nbest_all([empty], 2, tapes=[TAPE])[0]) == score
    assert chain.score(empty, ((), ())) == score
    answer = (_chain() & GRAMMARS["accepts"]).decode([{"word": []}])
    assert answer.offsets.tolist() == [0, 0]


@pytest.mark.parametrize("normalize", ["product", "chain"])
@pytest.mark.parametrize("forced", [None, []])
def test_without_a_grammar_there_is_the_empty_labelling(normalize: Any, forced: Any) -> None:
    joint = fstcrf.compose(_tagger(), _second(), normalize=normalize)
    known = None if forced is None else {TAPE: forced}
    assert _tagger().tag({"word": []}, forced=forced) == []
    assert joint.tag({"word": []}, forced=known) == ([], [])
    for tagger in (_tagger(), joint):
        answer = tagger.decode(_SENTENCES)
        assert answer.scores[1] == 0.0
        assert answer.probabilities[1] == 1.0


# --- Taggers that were trained under a grammar ----------------------------------------------------

HARD = {name: one for name, one in GRAMMARS.items() if "score" not in name}


@pytest.mark.parametrize("rule", HARD.values(), ids=HARD.keys())
def test_taggers_trained_under_a_grammar(rule: Grammar, tmp_path: Any) -> None:
    """It is part of their structure, and says what sentences without tokens are, too."""
    data = Corpus.from_sentences(_DATA[:1])
    tagger = CRF.train(data, "y", "U:%x[0,word]\nB", tape=TAPE, grammar=rule, max_iterations=2)
    tagger.save(tmp_path / "model")
    alive = _expected(rule) > -np.inf
    empty: dict[str, list[str]] = {"word": []}
    for one in (tagger, CRF.load(tmp_path / "model"), pickle.loads(pickle.dumps(tagger))):
        assert one.lattice(empty).log_partition() == _expected(rule)
        product = fstcrf.compose(one, _second(), normalize="product")
        assert product.lattice(empty).log_partition() == _expected(rule)
        answer = one.decode(_SENTENCES, on_no_path="skip")
        assert answer.dead.tolist() == [False, not alive, False]
        assert answer.probabilities[1] == alive
        joint = fstcrf.compose(one, _second())
        doors: list[Callable[[], Any]] = [
            partial(one.tag, empty),
            partial(one.tag, []),
            partial(one.tag_all, [[]]),
            partial(one.tag_all, _SENTENCES),
            partial(one.marginals_all, _SENTENCES),
            partial((one & bio(tape=TAPE)).tag_all, _SENTENCES),
            partial(joint.cascade, _SENTENCES),
            partial(fstcrf.compose(one, _second(), normalize="chain").tag_all, _SENTENCES),
            partial(TrainedPipeline(joint).tag_all, _SENTENCES),
            one.lattice(empty).best,
        ]
        for ask in doors:
            if alive:
                assert ask() is not None
            else:
                with pytest.raises(NoPathError, match="trained under does not accept the empty"):
                    ask()


def test_machines_in_files(tmp_path: Any) -> None:
    """Initial and final weights of a machine whose start is an end are its final score."""
    none = np.empty(0, dtype=np.int32)
    machine = Machine(none, none, none, none, np.empty(0), np.asarray([-1.5]), (), ())
    path = tmp_path / "nothing.fst"
    path.write_bytes(to_bytes(machine, "standard"))
    grammar = Grammar.from_fst(path, tape=TAPE)
    assert (_lattice() & grammar).log_partition() == -1.5
    assert (_tagger() & grammar).decode(_SENTENCES, on_no_path="skip").scores[1] == -1.5


# --- Grammars of the empty labelling alone --------------------------------------------------------

NOTHING = {
    "arrays": Grammar.from_arrays(LABELS, [[-1, -1, -1]], final=[-1.5], tape=TAPE),
    "expression": Grammar.from_text(f'tape {TAPE};\nexport X = "" <1.5>;'),
    "beside another": Grammar.from_arrays(LABELS, [[-1] * 3], final=[-1.5], tape=TAPE)
    & bio(tape=TAPE),
    "in two steps": Grammar.from_arrays(
        LABELS, [[1] * 3, [-1] * 3], final=[-1.5, -np.inf], tape=TAPE
    ),
}


@pytest.mark.parametrize("grammar", NOTHING.values(), ids=NOTHING.keys())
def test_the_empty_labelling_alone(grammar: Grammar) -> None:
    bound = grammar.bound({TAPE: LABELS})
    assert bound.score({TAPE: []}) == -1.5
    assert not bound.accepts({TAPE: ["O"]})
    assert bound.draw()
    for search in ("lazy", "expanded", "auto"):
        empty = _lattice().constrained(grammar, search=search)
        full = _lattice(2).constrained(grammar, search=search)
        assert empty.best().score == empty.log_partition() == -1.5
        assert full.log_partition() == -np.inf
        with pytest.raises(NoPathError, match="no labelling is legal"):
            full.best()
        assert full.to_att() == "0\tInfinity\n"
    scores = fstcrf.decode(
        np.zeros((2, 2, 3)), [0, 2], labels=LABELS, grammar=_bare(grammar)
    ).scores
    assert scores.tolist() == [-1.5, -np.inf]
    for make in (TAGGERS["tagger"], TAGGERS["product"], TAGGERS["chain"]):
        tagger = make(grammar)
        answer = tagger.decode(_SENTENCES, on_no_path="skip")
        assert answer.scores.tolist() == [-np.inf, -1.5, -np.inf]
        assert answer.dead.tolist() == [True, False, True]


def test_rules_that_leave_no_label_are_mistakes() -> None:
    """A rule, unlike a language, says what goes together with labels, so it leaves some."""
    with pytest.raises(GrammarError, match="accepts no sequence of these 3 labels"):
        never(ANY, tape=TAPE).bind({TAPE: LABELS})
    with pytest.raises(GrammarError, match=r"no label is in label\[\"Q\"\]"):
        Grammar.from_text('export X = label["Q"]*;', LABELS)
    with pytest.raises(ContradictionError, match="contradict each other"):
        _tagger() & never("O", tape=TAPE) & never("X", tape=TAPE)
    with pytest.raises(ContradictionError):
        _tagger() & NOTHING["arrays"] & at_least(1, "O", tape=TAPE)
