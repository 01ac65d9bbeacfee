"""One law: whatever is public, pickled and read again, gives the same answers.

So it goes to processes that are spawned, to joblib, to `torch.save`. Grammars that were equal stay
equal, so that what is compiled for the one serves its copies.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import constraints
from fstcrf.constraints import at_most, bio, bioes
from fstcrf.errors import GrammarError
from fstcrf.ext.calibration import Calibration, Events
from fstcrf.ext.documents import Consistency, DocumentTagger
from fstcrf.ext.lexicon import Entry, Lexicon
from fstcrf.ext.pipelines.declaration import on_tape
from fstcrf.ext.rules import train_with_rules
from fstcrf.ext.tokens import Pieces, TransitionBiases
from fstcrf.ext.words import Annotation, Words
from fstcrf.lattices import Lattice
from fstcrf.lattices.emissions.structure import joint_structure
from fstcrf.machines.grammar import Acceptor, Constraint, Grammar, equivalent
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import to_bytes
from tests.support.wordlists import KINDS, RANGES, UNKNOWN

LABELS = ("O", "B-A", "I-A", "B-B")
TWO = {"pos": ("N", "V"), "ner": ("O", "B-A", "I-A")}


def doubled(value: Any) -> list[Any]:
    """The same thing by every way that copies it, in this process."""
    again = pickle.loads(pickle.dumps(value))
    twice = pickle.loads(pickle.dumps(again, protocol=2))
    return [again, twice, copy.deepcopy(value), copy.copy(value)]


# --- Grammars -------------------------------------------------------------------------------------


def rising(first: str | None, second: str | None) -> bool:
    return first is None or second is None or first >= second


def acceptor(labels: tuple[str, ...] = LABELS) -> Acceptor:
    target = np.asarray([[0, 1, 1, -1], [1, -1, 0, 0]], dtype=np.int32)
    score = np.where(target < 0, 0.0, 0.5)
    return Acceptor(("",), (labels,), target, score, np.asarray([0.0, -1.0]), "mine")


def machine(folder: Path) -> Path:
    """Write an acceptor of OpenFst with two paths for a labelling."""
    arcs = np.asarray([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 2, 1], [1, 3, 0]], dtype=np.int32)
    source, label, target = (np.ascontiguousarray(column) for column in arcs.T)
    score = np.asarray([0.0, -1.0, 0.5, 0.0, -2.0])
    final = np.asarray([0.0, -0.5])
    found = Machine(source, label, label, target, score, final, LABELS, LABELS)
    (folder / "mine.fst").write_bytes(to_bytes(found, "standard"))
    return folder / "mine.fst"


def text_with_machine(folder: Path) -> Grammar:
    machine(folder)
    (folder / "mine.grm").write_text('export X = fst["mine.fst"];', "utf-8")
    return Grammar.from_file(folder / "mine.grm")


def from_file(folder: Path) -> Grammar:
    (folder / "plain.grm").write_text('export X = ("[O]" | "[B-A]" "[I-A]"*)*;', "utf-8")
    return Grammar.from_file(folder / "plain.grm")


EACH = 'NEXT = "[B-A]" "[I-A]";\nexport X = each[NEXT, <1.5>];\nexport Y = never["B"];'
CONDITION = 'export X = if_present["A", before["A", "B"]];'
TEXT = 'func twice[x] { return x x; }\nexport X = twice[("[O]" | "[B-A]" <2.0>)*];'

GRAMMARS: dict[str, Callable[[Path], Grammar]] = {
    "at_least": lambda _: constraints.at_least(1, "A", weight=-1.5),
    "at_most": lambda _: at_most(1, "A"),
    "before": lambda _: constraints.before("B", "A"),
    "bilou": lambda _: constraints.bilou(weight=-1.0).bound(["O", "U-A"]),
    "bio": lambda _: bio(),
    "bmes": lambda _: constraints.bmes(weight=-2.0).bound(["O", "S-A"]),
    "bmewo": lambda _: constraints.bmewo(weight=-2.0).bound(["O", "W-A"]),
    "bioes": lambda _: bioes(weight=-2.0).bound(["O", "S-A"]),
    "contiguous": lambda _: constraints.contiguous(),
    "end_with": lambda _: constraints.end_with(constraints.label("O|B-.*")),
    "exactly": lambda _: constraints.exactly(2, ["A", "B"]),
    "if_present": lambda _: constraints.if_present("A", constraints.before("A", "B") & bio()),
    "iob1": lambda _: constraints.iob1(),
    "never": lambda _: constraints.never(constraints.span("B")),
    "pairs": lambda _: constraints.pairs({"V": ["O"]}, ("pos", "ner"), weight=-1.0).bound(TWO),
    "requires": lambda _: constraints.requires("A", "B"),
    "start_with": lambda _: constraints.start_with("A", scheme="iob2"),
    "tagging_scheme": lambda _: constraints.tagging_scheme("iob2"),
    "neighbours": lambda _: constraints.neighbours([("O", "O"), ("O", "B-A"), (None, "O")]),
    "neighbours of a map": lambda _: constraints.neighbours({"B-A": ["I-A", None]}),
    "neighbours of a function": lambda _: constraints.neighbours(rising),
    "neighbours of a lambda": lambda _: constraints.neighbours(lambda a, b: a != b),
    "both": lambda _: bio() & at_most(1, "A") & Grammar.from_text(CONDITION),
    "bound": lambda _: (bio() & at_most(1, "A")).bound(LABELS),
    "of a tape": lambda _: (bio(tape="ner") & constraints.never("V", tape="pos")).bound(TWO),
    "put on a tape": lambda _: on_tape(bio(), "ner").bound(TWO),
    "text": lambda _: Grammar.from_text(TEXT),
    "text of nothing": lambda _: Grammar.from_text('export X = "";'),
    "text with each": lambda _: Grammar.from_text(EACH),
    "text with a machine": text_with_machine,
    "file": from_file,
    "shipped": lambda _: Grammar.shipped("bio"),
    "arrays": lambda _: Grammar.from_arrays(LABELS, acceptor().target, score=acceptor().score),
    "acceptor": lambda _: Grammar.from_acceptor(acceptor()),
    "machine": lambda folder: Grammar.from_fst(machine(folder)),
}


def scores(grammar: Grammar) -> list[float]:
    """Score of every labelling of up to three tokens."""
    sets = grammar.labels or {"": LABELS}
    own = grammar if grammar.labels else grammar.bound(LABELS)
    found = []
    for length in range(4):
        every = [itertools.product(labels, repeat=length) for labels in sets.values()]
        for labels in itertools.product(*every):
            found += [own.score(dict(zip(sets, labels, strict=True)))]
    return found


def test_every_constructor_of_grammars_is_here() -> None:
    classes_and_names = {"ANY", "label", "span"}
    assert set(constraints.__all__) - classes_and_names <= set(GRAMMARS)
    made = {name.removeprefix("from_") for name in vars(Grammar) if name.startswith("from_")}
    known = {"fst": "machine"}
    assert {known.get(name, name) for name in made} | {"shipped"} <= set(GRAMMARS)


@pytest.mark.filterwarnings("ignore::fstcrf.errors.LabelWarning")  # iob1 and B-B
@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars(name: str, tmp_path: Path) -> None:
    grammar = GRAMMARS[name](tmp_path)
    wanted = scores(grammar)
    assert any(score > -np.inf for score in wanted)
    for file in tmp_path.iterdir():
        file.unlink()  # what it was made from may be gone
    for again in doubled(grammar):
        assert repr(again) == repr(grammar)
        assert again.labels == grammar.labels
        assert scores(again) == wanted
        assert again.constraints == grammar.constraints
        assert hash(again.constraints) == hash(grammar.constraints)
        bound = [one.bind(grammar.labels or LABELS) for one in (again, grammar)]
        assert all(equivalent(one, other, 0.0) for one, other in zip(*bound, strict=True))


def test_what_is_compiled_serves_copies() -> None:
    grammar = bio() & Grammar.from_text(TEXT)
    tapes = (("label", LABELS),)
    again = pickle.loads(pickle.dumps(grammar))
    assert joint_structure(tapes, again) is joint_structure(tapes, grammar)


def test_constraints_of_no_content_are_equal_to_copies_alone() -> None:
    one, other = (constraints.neighbours(rising).constraints[0] for _ in range(2))
    assert one != other
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != "a constraint"
    assert Constraint("a", len) != Constraint("a", len)  # type: ignore[arg-type]


def test_a_function_without_a_name_is_pickled_as_its_answers() -> None:
    grammar = constraints.neighbours(lambda a, b: a != b)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):  # none so far
        pickle.dumps(grammar)
    assert copy.deepcopy(grammar).bound(LABELS).accepts(["O"])
    again = pickle.loads(pickle.dumps(grammar.bound(LABELS)))
    assert not again.accepts(["O", "O"])
    with pytest.raises(GrammarError, match="for 4 other labels: define"):
        again.bound(["A", "B"])


def test_pickles_hold_no_acceptors() -> None:
    """What is compiled for large label sets does not travel."""
    grammar = at_most(3, "T0") & bio()
    size = len(pickle.dumps(grammar))
    grammar.bind(["O", *(f"{letter}-T{k}" for k in range(50) for letter in "BI")])
    assert len(pickle.dumps(grammar)) == size


# --- Everything else ------------------------------------------------------------------------------

COLUMNS = fstcrf.Corpus.from_sentences(
    [
        {"word": ["a", "dog", "barks"], "tag": ["D", "N", "V"], "ner": ["O", "B-A", "I-A"]},
        {"word": ["dogs", "bark"], "tag": ["N", "V"], "ner": ["B-A", "O"]},
        {"word": ["a"], "tag": ["D"], "ner": ["O"]},
    ]
)
NAMES = fstcrf.Corpus.from_sentences(
    [
        {"word": ["Rotor", "won"], "ner": ["B-A", "O"]},
        {"word": ["Rotor", "lost"], "ner": ["B-B", "O"]},
        {"word": ["Rotor", "sank"], "ner": ["B-A", "O"]},
    ]
)
TEXTS: list[dict[str, list[str]]] = [
    {"word": ["a", "dog", "barks", "dogs"]},
    {"word": ["bark"]},
    {"word": []},
]
RULE = 'export X = each["[N]" "[V]", <?>];'
NOUN = 'export X = ("[N]" | "[V]" | "[D]")*;'
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nB"
SCORES = np.random.default_rng(0).normal(size=(2, 3, len(LABELS)))


@cache
def tagger() -> fstcrf.CRF:
    return fstcrf.CRF.train(COLUMNS, "tag", TEMPLATE, max_iterations=5)


@cache
def reader() -> fstcrf.CRF:
    template = TEMPLATE + "\nU2:%y[0,tag]"
    return fstcrf.CRF.train(COLUMNS, "ner", template, reads=[tagger()], max_iterations=5)


@cache
def literal() -> fstcrf.CRF:
    data = [[["w=a"], ["w=dog", "s=g"]], [["w=dogs"]]]
    return fstcrf.CRF.train(data, [["D", "N"], ["N"]], max_iterations=5)


def joint(normalize: Any = "product") -> fstcrf.Composition:
    return fstcrf.compose(tagger(), reader(), normalize=normalize) & bio(tape="ner")


def arrays(grammar: Grammar | None = None, dtype: str = "f4") -> fstcrf.Lattices[Any]:
    found = fstcrf.Lattices.from_arrays(LABELS, SCORES.astype(dtype), np.eye(4), lengths=[3, 2])
    return found if grammar is None else found & grammar


def token_decoder(**options: Any) -> fstcrf.TokenDecoder:
    return fstcrf.TokenDecoder(["O", "B-A", "I-A"], "bio", **options)


OFFSETS = [(0, 2), (2, 4), (5, 6), (7, 9)]
PIECES = Pieces(np.random.default_rng(1).normal(size=(4, 3)), OFFSETS)


@cache
def lexicon() -> Lexicon:
    entries = [Entry("ab", 0, 0, 100, "N,x,*"), Entry("a", 1, 1, 90, "V,x,f")]
    entries += [Entry("b", 2, 2, 110, "P,x,*"), Entry("bc", 0, 1, 100, "V,y,*")]
    matrix = np.arange(9, dtype=np.int16).reshape(3, 3) * 50
    characters = fstcrf.ext.lexicon.Characters.of_kinds(KINDS, RANGES)
    return Lexicon.from_entries(entries, matrix, characters, UNKNOWN)


@cache
def word_model() -> fstcrf.LatticeCRF:
    data = [
        Annotation.of_words([("a", "V"), ("bc", "V")]),
        Annotation.of_words([("a", "V"), ("b", "P")]),
    ]
    template = "UNIGRAM A:%F[0],%F?[2]\nBIGRAM C:%L[0]/%R[0]\n"
    return fstcrf.LatticeCRF.train(
        data, template, structure=Words(lexicon(), costs="fixed"), l2=0.1
    )


@cache
def segmenter() -> fstcrf.SegmentCRF:
    return fstcrf.SegmentCRF.train(COLUMNS, "ner", "U0:%x[0,word]", max_iterations=3)


def _trained(task: fstcrf.Task) -> Any:
    return fstcrf.Pipeline([task]).train()


@cache
def pipeline() -> fstcrf.Pipeline:
    return fstcrf.Pipeline(
        [
            fstcrf.Task("tag", COLUMNS, TEMPLATE),
            fstcrf.Task("ner", COLUMNS, TEMPLATE + "\nU2:%y[0,tag]", reads=["tag"]),
        ]
    )


def segments() -> Lattice:
    start, end, label = (np.asarray(row) for row in ([0, 0, 1], [1, 2, 2], [0, 1, 0]))
    score = np.asarray([0.5, 0.2, -0.1])
    return Lattice.from_segments(2, start, end, label, score, ("A", "B"))


def straight() -> Machine:
    source, target, read = np.asarray([[0, 0, 1], [1, 1, 2], [0, 1, 1]], dtype=np.int32)
    names, final = ("a", "b"), np.asarray([-np.inf, -np.inf, 0.5])
    return Machine(source, read, read, target, np.asarray([0.5, 0.1, 0.0]), final, names, names)


def lexicon_tagger() -> Any:
    data = [{"word": list("abca"), "tag": ["B", "I", "B", "I"]}]
    letters = fstcrf.CRF.train(fstcrf.Corpus.from_sentences(data), "tag", TEMPLATE)
    return lexicon() @ letters


def events() -> Events:
    rng = np.random.default_rng(0)
    documents = [Pieces(rng.normal(size=(4, 3)), OFFSETS) for _ in range(6)]
    return token_decoder().events(documents, [[(0, 4, "A")], [], [(5, 6, "A")]] * 2)


def of_answer(answer: Any) -> Any:
    """All that an answer tells, as arrays and lists."""
    tapes = [(answer[t].ids, answer[t].labels(), answer[t].spans()) for t in answer.tapes]
    facts = answer.scores, answer.probabilities, answer.exact, answer.bounds, answer.changed
    more: list[Any]
    try:
        more = [(answer.marginals(t), answer.span_probabilities(t)) for t in answer.tapes]
    except fstcrf.errors.OptionError as error:
        more = [str(error)]
    return tapes, facts, list(answer), more


def of_lattice(lattice: Any) -> Any:
    return lattice.best(), lattice.nbest(3), lattice.log_partition(), lattice.marginals()


def of_tagger(tagger: Any) -> Any:
    return of_answer(tagger.decode(TEXTS[:2], n=2)), tagger.tag_all(TEXTS)


def of_batch(batch: Any) -> Any:
    numbers = batch.log_partition(), batch.marginals(), batch.entropy(), batch.max_marginals()
    return of_answer(batch.decode()), of_answer(batch.decode(2)), numbers, batch.sample(2)


def of_decoder(decoder: fstcrf.TokenDecoder) -> Any:
    return decoder.decode_all([PIECES]), decoder.to_json(), repr(decoder)


def of_words(model: Any) -> Any:
    answer = model.tag_all(["abca", "bc"])
    return [list(words) for words in answer], answer.scores


def of_itself(value: Any) -> Any:
    return value


Kind = tuple[Callable[[], Any], Callable[[Any], Any]]

KINDS_OF_THINGS: dict[str, Kind] = {
    "CRF": (tagger, of_tagger),
    "CRF over attributes": (literal, lambda m: of_answer(m.decode([[["w=a"], ["w=dog"]]]))),
    "CRF under a grammar": (lambda: tagger() & at_most(1, "N"), of_tagger),
    "Composition": (joint, of_tagger),
    "Composition by the chain rule": (lambda: joint(normalize="chain"), of_tagger),
    "TrainedPipeline": (lambda: pipeline().train(), of_tagger),
    "Pipeline": (pipeline, lambda p: of_tagger(p.train())),
    "Task": (lambda: fstcrf.Task("tag", COLUMNS, TEMPLATE), lambda t: of_tagger(_trained(t))),
    "DocumentTagger": (
        lambda: DocumentTagger(
            fstcrf.CRF.train(NAMES, "ner", TEMPLATE, max_iterations=5),
            [Consistency.estimate(NAMES, "ner")],
        ),
        lambda m: m.tag_all(NAMES),
    ),
    "SegmentCRF": (segmenter, lambda m: m.decode(COLUMNS).spans()),
    "SegmentCRF's answer": (
        lambda: segmenter().decode(COLUMNS),
        lambda a: (a.spans(), a.scores),
    ),
    "LatticeCRF": (word_model, of_words),
    "Lexicon": (lexicon, of_words),
    "words": (
        lambda: lexicon().tag_all(["abca", "bc"]),
        lambda a: (list(a), a.scores),
    ),
    "words of a text": (lambda: lexicon().candidates("abca"), list),
    "lattice of words": (lambda: lexicon().lattice("abca"), of_lattice),
    "Lattice": (lambda: tagger().lattice(TEXTS[0]), of_lattice),
    "Lattice under a grammar": (
        lambda: tagger().lattice(TEXTS[0]) & at_most(1, "N") & Grammar.from_text(NOUN),
        of_lattice,
    ),
    "Lattice of arrays": (lambda: Lattice.from_arrays(LABELS, SCORES[0]) & bio(), of_lattice),
    "joint lattice": (lambda: joint().lattice(TEXTS[0]), of_lattice),
    "lattice of samples": (
        lambda: joint().lattice(TEXTS[0], samples=9),
        lambda one: (of_lattice(one), one.standard_error(0.5)),
    ),
    "CTC lattice": (
        lambda: Lattice.from_ctc(SCORES[0], 0),
        lambda one: (one.best(), one.strings(n=2)),
    ),
    "acyclic lattice": (
        lambda: Lattice.from_machine(straight()),
        lambda one: (one.best(), one.nbest(2), one.log_partition()),
    ),
    "Transducer": (
        lambda: fstcrf.Transducer.from_table({label: ["x", "y"] for label in LABELS}),
        lambda one: (Lattice.from_arrays(LABELS, SCORES[0]) @ one).nbest(2),
    ),
    "answer of a transducer": (
        lambda: (tagger() @ fstcrf.Transducer.from_table({"N": "x", "D": None})).decode(TEXTS[:2]),
        lambda one: (one.ranked(), one["output"].labels(), one.marginals("output")),
    ),
    "lexicon under a tagger": (lexicon_tagger, lambda m: repr(m.tag("abca"))),
    "rules that were learned": (
        lambda: train_with_rules(tagger(), COLUMNS, RULE, target="tag", max_iterations=2),
        lambda found: of_tagger(found.tagger),
    ),
    "Pieces": (lambda: PIECES, token_decoder().decode_all),
    "segment lattice": (segments, lambda one: (one.best(), one.log_partition())),
    "Lattices": (lambda: fstcrf.Lattices([tagger().lattice(text) for text in TEXTS]), of_batch),
    "Lattices of arrays": (arrays, of_batch),
    "Lattices in float64": (lambda: arrays(None, "f8"), of_batch),
    "Lattices under a grammar": (lambda: arrays(bio() & at_most(1, "A")), of_batch),
    "Lattices searched": (lambda: arrays(constraints.contiguous(), "f8"), of_batch),
    "answer of a tagger": (lambda: tagger().decode(TEXTS), of_answer),
    "answer with forced labels": (
        lambda: tagger().decode(TEXTS[:2], n=2, forced=[["D", "N", None, None], None]),
        of_answer,
    ),
    "answer that was relaxed": (
        lambda: (tagger() & constraints.never(["N", "D"])).decode(
            TEXTS[:2], forced=[["N", None, None, None], None], on_no_path="relax"
        ),
        of_answer,
    ),
    "answer of a composition": (lambda: joint().decode(TEXTS[:2], n=2), of_answer),
    "answer by the chain rule": (
        lambda: joint(normalize="chain").decode(TEXTS[:2]),
        of_answer,
    ),
    "answer of a cascade": (
        lambda: pipeline().train().decode(TEXTS[:2], decode="cascade"),
        of_answer,
    ),
    "answer by marginals": (
        lambda: pipeline().train().decode(TEXTS[:2], decode="marginals"),
        of_answer,
    ),
    "answer with a dead sentence": (
        lambda: (tagger() & at_most(0, "N")).decode(
            TEXTS[:2], forced=[["N", None, None, None], None], on_no_path="skip"
        ),
        of_answer,
    ),
    "answer of arrays": (lambda: arrays(bio()).decode(), of_answer),
    "answer of arrays, n best": (lambda: arrays(bio()).decode(3), of_answer),
    "answer of documents": (
        lambda: DocumentTagger(tagger(), []).decode(COLUMNS),
        lambda a: (a.labels(), a.scores, a.probabilities),
    ),
    "answer of a tape": (lambda: joint().decode(TEXTS[:2])["ner"], lambda t: (t.ids, t.spans())),
    "Path": (lambda: tagger().lattice(TEXTS[0]).best(), of_itself),
    "Budget": (lambda: fstcrf.Budget(100, 2.0), of_itself),
    "Corpus": (lambda: COLUMNS, lambda c: [c.column_lists(name) for name in c.columns]),
    "Sentence": (lambda: COLUMNS[1], lambda s: [s[name] for name in ("word", "tag")]),
    "TemplateSet": (
        lambda: fstcrf.parse_template(TEMPLATE),
        lambda t: of_tagger(fstcrf.CRF.train(COLUMNS, "tag", t, max_iterations=2)),
    ),
    "Grammar": (bio, scores),
    "TokenDecoder": (token_decoder, of_decoder),
    "TokenDecoder with all": (
        lambda: token_decoder(
            grammar=at_most(1, "A"),
            thresholds={"A": 0.2},
            biases=TransitionBiases(background_to_start=0.5),
            calibration=Calibration.fit(events(), "log-odds", least=1),
        ),
        of_decoder,
    ),
    "Events": (events, lambda e: (e.probability, e.correct, e.missed, e.types)),
    "SpanReport": (
        lambda: fstcrf.evaluate_spans([["B-A", "I-A"]], [["B-A", "O"]]),
        lambda r: r.to_dict(),
    ),
}


def alike(one: Any, other: Any) -> bool:
    """Whether two answers are equal to the bit, NaN too."""
    if isinstance(one, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) or str(one) == str(other) == "nan"


def equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS_OF_THINGS)
@pytest.mark.parametrize("used", [False, True])
def test_everything_else(name: str, used: bool) -> None:
    make, ask = KINDS_OF_THINGS[name]
    value = make()
    if used:  # what was computed on the way stays here
        ask(value)
    copies = doubled(value)
    wanted = ask(value)
    for again in copies:
        assert type(again) is type(value)
        assert alike(ask(again), wanted)


def test_every_public_class_is_here() -> None:
    made = {kind.__name__ for make, _ in KINDS_OF_THINGS.values() for kind in type(make()).mro()}
    public = {n for n in fstcrf.__all__ if isinstance(getattr(fstcrf, n), type)}
    assert public <= made


def test_the_law_notices() -> None:
    assert not alike(np.zeros(2), np.zeros(3))
    assert not alike([np.zeros(2)], [np.ones(2)])
    assert not alike({"a": 1.0}, {"a": 2.0})
    assert not alike(np.zeros(2), np.zeros(2, dtype=np.float32))
    assert alike([np.asarray([np.nan])], [np.asarray([np.nan])])


def answered(name: str, value: Any) -> Any:
    return KINDS_OF_THINGS[name][1](value), value


@pytest.mark.thorough
def test_other_processes_answer_alike() -> None:
    names = ["Lattices under a grammar", "TokenDecoder with all", "answer of a tagger", "Lattice"]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for name in names:
            make, ask = KINDS_OF_THINGS[name]
            there, back = pool.submit(answered, name, make()).result()
            assert alike(there, ask(make()))
            assert alike(ask(back), there)
        model = joint()
        assert list(pool.map(model.tag, TEXTS)) == model.tag_all(TEXTS)
