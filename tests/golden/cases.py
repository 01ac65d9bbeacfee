"""Golden files: how each is written, and what is asked of it.

A file that was written stays as it is: it is of the format of its day. What is asked gives
numbers, strings, lists and dicts, which are compared with those that are kept.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import fstcrf
from fstcrf import CRF, Composition, Corpus, Grammar, Lexicon, SegmentCRF, TokenDecoder
from fstcrf.constraints import at_most, exactly
from fstcrf.ext.calibration import Calibration, Events
from fstcrf.ext.documents import Consistency, Differing, DocumentTagger, Fields, Violation, scores
from fstcrf.ext.feedback import Aim, FeedbackLearner, Rule, untrained
from fstcrf.ext.foreign.conversion import written
from fstcrf.ext.lexicon import Characters, Entry, Kind
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.ext.rules import learn_rules
from fstcrf.ext.tune import tune
from fstcrf.ext.words import Annotation, LatticeCRF, Words
from fstcrf.machines import openfst
from fstcrf.training.loop import saved_iteration
from tests.golden.texts import ASKED, EITHER, PARTIAL, TAGGED, TRAIN, attributes
from tests.support.training import flat_train

__all__ = ["CASES", "Case", "copied", "fresh", "pack", "stored"]

_LARGEST, _PACKED = 64_000, ".packed"


@dataclass(frozen=True)
class Case:
    """One golden file, or a folder of them.

    Parameters
    ----------
    write : callable
        Writes it to a path.
    ask : callable
        Loads a copy of it and answers.
    ending : str
        Of its name; of a folder none.
    within : float
        How far numbers may be from those that are kept, relative and absolute.
    """

    write: Callable[[Path], object]
    ask: Callable[[Path], Any]
    ending: str = ".fstcrf"
    within: float = 1e-9


# --- Answers --------------------------------------------------------------------------------------


def numbers(values: Any) -> Any:
    """Return an array as lists."""
    return np.asarray(values, dtype=np.float64).tolist()


def of_tagger(tagger: Any, sentences: Sequence[Any], *, n: int = 3) -> dict[str, Any]:
    """Return best labels, the n best paths and probabilities of labels."""
    answer = tagger.decode(sentences, n=n, on_no_path="skip")
    found: dict[str, Any] = {
        "tag": tagger.tag_all(
            [s for s, dead in zip(sentences, answer.dead, strict=True) if not dead]
        ),
        "nbest": [
            [[path.labels, path.score, path.probability] for path in paths]
            for paths in tagger.nbest_all(sentences, n)
        ],
        "scores": numbers(answer.scores),
    }
    if not (isinstance(tagger, Composition) and tagger._conditional):  # else there are none
        found["marginals"] = {
            tape: list(map(numbers, answer.marginals(tape))) for tape in tagger.tapes
        }
    return found


def loaded(sentences: Sequence[Any] = ASKED, *, empty: bool = True) -> Callable[[Path], Any]:
    """Return a question to a tagger in a file, with a sentence of no tokens where that is asked."""

    def ask(path: Path) -> Any:
        nothing: list[Any] = [
            [] if isinstance(sentences[0], list) else {k: [] for k in sentences[0]}
        ]
        return of_tagger(fstcrf.load(path), [*sentences, *(nothing if empty else [])])

    return ask


def forced(path: Path) -> Any:
    """Ask with labels that are known, in part."""
    tagger = fstcrf.load(path)
    known = [["O" if k == 0 else None for k, _ in enumerate(s["word"])] for s in ASKED]
    paths = tagger.nbest_all(ASKED, 2, forced=known)
    return of_tagger(tagger, ASKED) | {
        "forced": [
            [[one.labels, one.score, one.probability] for one in several] for several in paths
        ]
    }


# --- Taggers --------------------------------------------------------------------------------------

WORDS = "U1:%x[-1..1,word]\nU2:%x[0,suffix(word,2)]\n"
TEMPLATE = WORDS + "B1:%x[0,shape(word)]\nB\n"
POS, NAME = "U:%x[0,word]\nU:%x[-1,word]\nB\n", "U:%x[0,word]\nU:%x[0,shape(word)]\nB\n"
READING = NAME + "U:%y[0,pos]\nU:%y[0,pos]/%x[-1,word]\n"


def trained(
    target: str = "name", template: str = TEMPLATE, data: Any = TRAIN, **options: Any
) -> CRF:
    usual = {"max_iterations": 8, "l2": 0.1}
    return flat_train(data, target, template, **{**usual, **options})


def literal(**options: Any) -> CRF:
    data = [attributes(s) for s in TRAIN]
    return flat_train(data, [s["name"] for s in TRAIN], **{"max_iterations": 8, **options})


def tagger(**options: Any) -> Callable[[Path], object]:
    return saved(lambda: trained(**options))


def saved(made: Callable[[], Any]) -> Callable[[Path], object]:
    return lambda path: made().save(path)


def pair() -> tuple[CRF, CRF]:
    first = trained("pos", POS)
    return first, trained("name", READING, reads=[first], scheme="iob2")


MODELS: dict[str, Case] = {
    "crf": Case(tagger(), forced),
    "crf-order-0": Case(tagger(order=0), loaded()),
    "crf-order-2": Case(tagger(order=2, scheme="iob2", ends=True), loaded()),
    "crf-complete": Case(
        tagger(pairs="complete", transitions="all", boundary="skip", template=NAME), loaded()
    ),
    "crf-values": Case(tagger(template="U:%v[0,length]\n" + NAME), loaded()),
    "crf-l1": Case(tagger(l1=0.3), loaded()),
    "crf-hashed": Case(tagger(hash_bits=6), loaded()),
    "crf-l2sgd": Case(tagger(method="l2sgd", max_iterations=4, template=NAME), loaded()),
    "crf-perceptron": Case(
        tagger(method="perceptron", max_iterations=4, l2=None, template=NAME), loaded()
    ),
    "crf-mce": Case(tagger(objective="mce", max_iterations=3), loaded()),
    "crf-partial": Case(tagger(data=PARTIAL, scheme="iob2"), loaded()),
    "crf-one-of": Case(tagger(data=EITHER, target="pos"), loaded()),
    "crf-grammar": Case(tagger(grammar=at_most(2, "B-PER"), template=NAME), loaded(empty=False)),
    "crf-reading": Case(saved(lambda: pair()[1]), loaded(TAGGED)),
    "crf-literal": Case(saved(literal), loaded([attributes(s) for s in ASKED])),
    "crf-literal-hashed": Case(
        saved(lambda: literal(hash_bits=5)), loaded([attributes(s) for s in ASKED])
    ),
}


def _passing(passing: str) -> Composition:
    first = trained("pos", POS)
    return fstcrf.compose(
        first, trained("name", READING, reads=[first], passing=passing), normalize="chain"
    )


def _three() -> Composition:
    first, second = pair()
    third = trained("name", NAME, tape="other", data=PARTIAL)
    return fstcrf.compose(first, second, third, weights=[1.0, 0.5, 2.0], normalize="product")


SOFT = 'tape pos, name;\nexport X = each["[pos=D]" "[name=B-LOC]", <0.75>];'


def product(**options: Any) -> Any:
    return fstcrf.compose(*pair(), normalize="product", **options)


COMPOSITIONS: dict[str, Case] = {
    "product": Case(saved(product), loaded()),
    "product-apart": Case(saved(lambda: trained("pos", POS) @ trained("name", NAME)), loaded()),
    "product-weighted": Case(saved(_three), loaded()),
    "product-grammar": Case(
        saved(lambda: product(grammar=at_most(1, "B-PER", tape="name"))), loaded(empty=False)
    ),
    "product-soft": Case(
        saved(lambda: product(grammar=Grammar.from_text(SOFT))), loaded(empty=False)
    ),
    "product-lazy": Case(
        saved(lambda: product(search="lazy", grammar=exactly(2, "N", tape="pos"))),
        loaded(empty=False),
    ),
    "grammar": Case(
        saved(lambda: trained("name", NAME) & exactly(1, "B-PER")), loaded(empty=False)
    ),
    "chain": Case(saved(lambda: fstcrf.compose(*pair(), normalize="chain")), loaded()),
    "chain-nbest": Case(saved(lambda: _passing("nbest")), loaded()),
    "chain-marginals": Case(saved(lambda: _passing("marginals")), loaded()),
}


# --- Pipelines ------------------------------------------------------------------------------------


def pipeline(path: Path, grammar: Grammar | None = None, **options: Any) -> None:
    data = Corpus.from_sentences(TRAIN)
    known: dict[str, Any] = {"max_iterations": 8, "l2": 0.1}
    tasks = [
        fstcrf.Task("pos", data, POS, options=known),
        fstcrf.Task("name", data, READING, reads=["pos"], options={**known, "scheme": "iob2"}),
    ]
    fstcrf.Pipeline(tasks, grammar=grammar, **options).train().save(path)


def every_decoder(*decoders: Decode) -> Callable[[Path], Any]:
    def ask(path: Path) -> Any:
        found = fstcrf.load_pipeline(path)
        return {
            decode: {
                "tag": found.tag_all(ASKED, decode=decode),
                "nbest": [
                    [[one.labels, one.score, one.probability] for one in several]
                    for several in found.nbest_all(ASKED, 3, decode=decode)
                ],
            }
            for decode in decoders
        } | {"default": found.decoder}

    return ask


PIPELINES: dict[str, Case] = {
    "pipeline": Case(
        lambda path: pipeline(path, normalize="product"), every_decoder("cascade", "joint"), ""
    ),
    "pipeline-joint": Case(
        lambda path: pipeline(path, decode="joint", grammar=at_most(1, "B-PER", tape="name")),
        every_decoder("joint"),
        "",
    ),
}


# --- Segments, words ------------------------------------------------------------------------------


def segments(path: Path) -> None:
    data = Corpus.from_sentences(TRAIN)
    template = "U0:%x[-1..1,word]\nU1:%x[0,shape(word)]\nB"
    SegmentCRF.train(data, "name", template, max_iterations=6).save(path)


def of_segments(path: Path) -> Any:
    model = SegmentCRF.load(path)
    answer = model.decode(ASKED)
    lattices = [model.lattice(s) for s in ASKED]
    return {
        "spans": [[[s.start, s.end, s.type] for s in spans] for spans in answer.spans()],
        "scores": numbers(answer.scores),
        "tag": model.tag_all(ASKED),
        "log Z": [lattice.log_partition() for lattice in lattices],
        "marginals": [numbers(lattice.marginals()) for lattice in lattices],
    }


def beside(path: Path) -> None:
    segments(path)
    both = SegmentCRF.load(path) @ trained("pos", POS)
    (both & at_most(1, "PER", tape="name", weight=-0.5)).save(path)


def of_beside(path: Path) -> Any:
    model = fstcrf.load(path)
    answer = model.decode(ASKED, n=3, on_no_path="skip")
    return {
        "scores": numbers(answer.scores),
        "labels": [[path.labels for path in paths] for paths in answer.ranked()],
        "marginals": [[numbers(rows) for rows in answer.marginals(t)] for t in model.tapes],
    }


def lexicon() -> Lexicon:
    kinds = {
        "DEFAULT": Kind(always=False, runs=True, length=0),
        "SPACE": Kind(always=False, runs=True, length=0),
        "LETTER": Kind(always=True, runs=True, length=2),
    }
    ranges = [(0x20, 0x20, ["SPACE"]), (ord("a"), ord("z"), ["LETTER"])]
    unknown = [Entry(name, 0, 1, 900, f"X,{name},*") for name in kinds]
    words = [
        Entry("ab", 0, 0, 100, "N,x,*"),
        Entry("a", 1, 1, 120, "V,x,f"),
        Entry("b", 2, 2, 90, "P,x,*"),
        Entry("bc", 0, 1, 110, "V,y,*"),
        Entry("c", 1, 0, 95, "N,y,f"),
        Entry("アb", 1, 2, 70, "N,z,*"),
    ]
    matrix = (np.arange(9, dtype=np.int16).reshape(3, 3) * 37) % 101
    return Lexicon.from_entries(words, matrix, Characters.of_kinds(kinds, ranges), unknown)


TEXTS = ["abc", "ab cab", "アbc", "zz a", "b"]


def of_lexicon(path: Path) -> Any:
    return of_words(Lexicon.load(path))


def of_words(model: Any) -> Any:
    lattices = [model.lattice(text) for text in TEXTS]
    return {
        "tag": [
            [[w.surface, w.start, w.end, w.feature] for w in model.tag(text)] for text in TEXTS
        ],
        "nbest": [
            [
                [
                    [w.surface for w in model.candidates(text).chosen(one.arcs)],
                    one.score,
                    one.probability,
                ]
                for one in lattice.nbest(3)
            ]
            for text, lattice in zip(TEXTS, lattices, strict=True)
        ],
        "log Z": [lattice.log_partition() for lattice in lattices],
    }


def words(path: Path) -> None:
    data = [
        Annotation.of_words([("a", "V"), ("bc", "V")]),
        Annotation.of_words([("ab", "N"), ("c", "N")], "ab c"),
        Annotation.of_words([("a", "V"), ("b", "P"), ("a", "V")]),
    ]
    template = "UNIGRAM A:%F[0],%F?[2]\nUNIGRAM B:%w\nBIGRAM C:%L[0]/%R[0]\n"
    LatticeCRF.train(
        data, template, structure=Words(lexicon(), costs="fixed"), l2=0.1, max_iterations=5
    ).save(path)


UNITS: dict[str, Case] = {
    "segments": Case(segments, of_segments),
    "segments-beside": Case(beside, of_beside),
    "words": Case(words, lambda path: of_words(LatticeCRF.load(path))),
    "lexicon": Case(lambda path: lexicon().write(path, compiled=True), of_lexicon, ""),
    "lexicon-source": Case(lambda path: lexicon().write(path, compiled=False), of_lexicon, ""),
}


# --- Decoders, calibration, violations ------------------------------------------------------------

LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
PIECES = [(0, 2), (2, 4), (5, 8), (9, 11), (11, 12)]
OF_WORD = [0, 0, 1, 2, 2]
LOGITS = [
    [0.5, 1.25, 0.0, -0.5, 0.25],
    [0.25, -0.5, 1.0, 0.0, 0.5],
    [0.75, 0.5, 0.5, 1.0, -1.0],
    [0.0, 0.25, 0.75, 0.5, 1.0],
    [1.0, 0.0, 0.25, -0.25, 0.5],
]


def events() -> Events:
    return Events.of(np.linspace(0.1, 0.9, 20), np.arange(20) % 3 > 0, ["X", "Y"] * 10)


def decoder(**options: Any) -> Callable[[Path], object]:
    return saved(lambda: TokenDecoder(LABELS, "bio", **options))


def of_decoder(path: Path) -> Any:
    found = TokenDecoder.load(path)
    return [
        [[span.start, span.end, span.type, span.probability] for span in spans]
        for spans in (found.decode(LOGITS, PIECES, OF_WORD), found.decode(LOGITS[:1], PIECES[:1]))
    ]


def of_calibration(path: Path) -> Any:
    asked = np.linspace(0.05, 0.95, 7)
    found = Calibration.load(path)
    return {kind: numbers(found(asked, [kind] * 7)) for kind in ("X", "Y", "Z")}


def of_violations(path: Path) -> Any:
    base = CRF.load(path.parent / "crf.fstcrf")
    found = DocumentTagger(base, [scores.load(path)], chains=2, seed=3)
    return {"tag": found.tag_all(Corpus.from_sentences(ASKED))}


CONSISTENCY = Consistency([Violation("same", ("PER", "LOC"), -2.5)])
FIELDS = Fields([Differing("PER", "text", -1.5), Differing("LOC", "text", -0.5)])

DECODERS: dict[str, Case] = {
    "decoder": Case(decoder(), of_decoder, ".json"),
    "decoder-grammar": Case(
        decoder(grammar=at_most(1, "B-X"), temperature=1.5, pieces="first"), of_decoder, ".json"
    ),
    "decoder-thresholds": Case(
        saved(
            lambda: TokenDecoder(
                LABELS,
                "bio",
                thresholds={"X": 0.2, "Y": None},
                biases={"background_stay": -0.5},
                calibration=Calibration.fit(events()),
            )
        ),
        of_decoder,
        ".json",
    ),
    "calibration": Case(
        saved(lambda: Calibration.fit(events(), "isotonic", least=8)), of_calibration, ".json"
    ),
    "calibration-temperature": Case(  # what log-odds were called
        saved(lambda: Calibration.fit(events(), "log-odds", least=8)), of_calibration, ".json"
    ),
    "calibration-log-odds": Case(
        saved(lambda: Calibration.fit(events(), "log-odds", least=8)), of_calibration, ".json"
    ),
    "consistency": Case(CONSISTENCY.save, of_violations, ".json"),
    "fields": Case(FIELDS.save, of_violations, ".json"),
}


# --- Grammars, rules, machines --------------------------------------------------------------------

GRAMMAR = """\
tape name;
person = "[B-PER]" "[I-PER]"*;
place = "[B-LOC]" "[I-LOC]"*;
name = (person | place) <0.5>;
export X = (name | "[O]")+;
"""


def of_grammar(path: Path) -> Any:
    base = CRF.load(path.parent / "crf.fstcrf")
    grammar = Grammar.from_file(path)
    asked = ["O", "O B-PER", "B-PER I-PER O", "I-PER O", "B-LOC B-LOC I-PER"]
    names = [text.split() for text in asked]
    bound = grammar.bound(base.labels)
    return {
        "accepts": [bound.accepts(labels) for labels in names],
        "scores": [bound.score(labels) for labels in names],
        "tagger": of_tagger(base & grammar, ASKED),
    }


def rules(path: Path) -> None:
    base = trained("name", NAME)
    data = Corpus.from_sentences(TRAIN)
    learn_rules(base, data, 'export TWO = each["[O]" "[B-PER]", <?>];').save(path)


MACHINE = (
    "0\t1\ta\ta\t0.5\n0\t2\tb\tb\t1\n1\t3\tc\tc\t0.25\n2\t3\ta\ta\n1\t4\tb\tb\t1.5\n"
    "4\t3\tc\tc\t0.125\n3\t0.5\n"
)


def machine(fst_type: Any, arc_type: Any) -> Callable[[Path], object]:
    found = openfst.from_att(MACHINE)
    return lambda path: path.write_bytes(openfst.to_bytes(found, arc_type, fst_type=fst_type))


def of_machine(path: Path) -> Any:
    data = path.read_bytes()
    is_text = path.suffix == ".att"
    read = openfst.from_att(data.decode()) if is_text else openfst.from_bytes(data)
    lattice = fstcrf.Lattice.from_machine(read, None)
    return {
        "nbest": [[one.labels, one.score, one.probability] for one in lattice.nbest(5)],
        "log Z": lattice.log_partition(),
        "entropy": lattice.entropy(),
        "text": openfst.att_text(read),
    }


MACHINES: dict[str, Case] = {
    "names": Case(lambda path: path.write_text(GRAMMAR, "utf-8"), of_grammar, ".grm"),
    "rules": Case(rules, of_grammar, ".grm"),
    "vector": Case(machine("vector", "standard"), of_machine, ".fst"),
    "const": Case(machine("const", "log64"), of_machine, ".fst"),
    "machine": Case(lambda path: path.write_text(MACHINE, "utf-8"), of_machine, ".att"),
}


# --- What goes on: checkpoints, journals ----------------------------------------------------------


def begun(**options: Any) -> Callable[[Path], object]:
    given = {"max_iterations": 3, "checkpoint_every": 1, **options}
    return lambda path: trained(checkpoint=path, **given)


def gone_on(**options: Any) -> Callable[[Path], Any]:
    """Return a question that goes on from a checkpoint; its training is rounded otherwise."""

    def ask(path: Path) -> Any:
        begun_at = saved_iteration(path)
        model = trained(checkpoint=path, resume=True, max_iterations=5, **options)
        assert model.record is not None
        return {
            "iteration": begun_at,
            "iterations": model.record.iterations,
            "tag": model.tag_all(TRAIN),
            "objective": model.record.objective,
        }

    return ask


def going_on(**options: Any) -> Case:
    return Case(begun(**options), gone_on(**options), ".checkpoint", within=1e-4)


RULE, AIM = Rule("adadelta", rate=0.5), Aim(control="mean")


def learner(path: Path) -> None:
    start = untrained(TRAIN, ["O", "B-PER", "I-PER"], NAME, scheme="iob2")
    with FeedbackLearner.create(path, start, aim=AIM, rule=RULE, seed=5) as made:
        first = [made.propose({"word": s["word"]}) for s in TRAIN[:4]]
        made.feedback(first[0], 0.5)
        made.save()
        made.feedback(first[1], 1.0)
        made.withdraw(first[2])


def of_learner(path: Path) -> Any:
    with FeedbackLearner.open(path, sync="process") as found:
        before = {"pending": list(found.pending), "rewards": found.rewards}
        before["mean"] = found.mean_reward
        proposal = found.propose({"word": ["Ann", "ran"]})
        found.feedback(found.pending[0], 0.25)
        tagger = of_tagger(found.model(), ASKED)
    return before | {"labels": list(proposal.labels), "tagger": tagger}


SEARCH: dict[str, Any] = {"seed": 1, "max_iterations": 3, "order": 1}


def tuned(path: Path, trials: int, *, resume: bool) -> Any:
    return tune(
        Corpus.from_sentences(TRAIN[:8]),
        "name",
        NAME,
        dev=Corpus.from_sentences(TRAIN[8:]),
        trials=trials,
        journal=path,
        resume=resume,
        l2=(0.01, 10.0),
        pruner="none",
        **SEARCH,
    )


def of_search(path: Path) -> Any:
    found = tuned(path, 4, resume=True)
    return {
        "trials": [[trial.score, trial.outcome] for trial in found.trials],
        "best": found.best.score,
    }


# --- Scores from anywhere, coupled ----------------------------------------------------------------


def arrays(path: Path) -> None:
    generator = np.random.default_rng(7)
    sizes = {"node": (5, 3), "arc": (3, 3), "other": (5, 2), "coupling": (3, 2)}
    drawn = {name: generator.normal(size=size).round(3).tolist() for name, size in sizes.items()}
    drawn["node"][2][1] = "-inf"
    path.write_text(json.dumps(drawn) + "\n", "utf-8")


def of_arrays(path: Path) -> Any:
    known = {k: np.asarray(v, dtype=np.float64) for k, v in json.loads(path.read_text()).items()}
    first = fstcrf.Lattice.from_arrays(list("ABC"), known["node"], known["arc"])
    second = fstcrf.Lattice.from_arrays(list("xy"), known["other"])
    both = fstcrf.compose(first, second, coupling={(0, 1): known["coupling"]}, weights=[1.0, 0.5])
    ruled = first & at_most(1, "A")
    both_rows = np.stack([known["node"]] * 2)
    free = fstcrf.Lattices.from_arrays(list("ABC"), both_rows, known["arc"], lengths=[5, 3])
    batch = free & at_most(1, "A")
    answer = batch.decode(2)
    padded = [np.pad(rows, ((0, 5 - len(rows)), (0, 0))) for rows in batch.marginals()]
    return {
        name: {
            "nbest": [[one.labels, one.score, one.probability] for one in lattice.nbest(4)],
            "log Z": lattice.log_partition(),
            "entropy": lattice.entropy(),
            "att": lattice.to_att(),
        }
        for name, lattice in (("first", first), ("coupled", both), ("ruled", ruled))
    } | {
        "coupled marginals": list(map(numbers, both.marginals())),
        "batch": [answer.labels(), numbers(answer.scores), numbers(batch.log_partition())],
        "batch marginals": numbers(padded),
    }


RUNS: dict[str, Case] = {
    "lbfgs": going_on(),
    "owlqn": going_on(l1=0.2),
    "l2sgd": going_on(method="l2sgd", template=NAME),
    "asgd": going_on(method="asgd", template=NAME),
    "learner": Case(learner, of_learner, ""),
    "arrays": Case(arrays, of_arrays, ".json"),
    "search": Case(lambda path: tuned(path, 2, resume=False), of_search, ".journal", within=1e-4),
}


# --- Models of other programs ---------------------------------------------------------------------


def converted(kind: str, data: Any = TRAIN, **options: Any) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        model = trained("name", "U01:%x[0,word]\nU02:%x[-1,word]\nB\n", data, **options)
        path.write_bytes(written(model, kind))

    return write


def of_converted(path: Path) -> Any:
    """Ask a model of another program, which has its own names of columns."""
    model = fstcrf.load(path)
    if isinstance(model, CRF) and path.suffix == ".crfsuite":
        return of_tagger(model, [[[f"U01:{w}"] for w in s["word"]] for s in ASKED])
    return of_tagger(model, [[[w] for w in s["word"]] for s in ASKED])


FOREIGN: dict[str, Case] = {
    "crfsuite": Case(converted("crfsuite"), of_converted, ".crfsuite"),
    "crfpp": Case(converted("crfpp"), of_converted, ".crfpp"),
    "crfpp-text": Case(converted("crfpp-text"), of_converted, ".txt"),
    "wapiti": Case(converted("wapiti"), of_converted, ".wapiti"),
}
CASES: Mapping[str, Case] = (
    MODELS | COMPOSITIONS | PIPELINES | UNITS | DECODERS | MACHINES | RUNS | FOREIGN
)


def fresh(path: Path, ask: Callable[[Path], Any]) -> Any:
    """Ask a copy: what goes on from a file changes it."""
    with TemporaryDirectory(prefix="fstcrf-golden-") as folder:
        return ask(copied(path, Path(folder)))


def copied(path: Path, folder: Path) -> Path:
    """Copy a golden file into a folder, unpacked, with what others read beside it."""
    for known in {stored(path), path.parent / "crf.fstcrf"}:
        if known.is_dir():
            shutil.copytree(known, folder / known.name)
        else:
            shutil.copy(known, folder / known.name)
    unpack(folder)
    return folder / path.name


def stored(path: Path) -> Path:
    """Return where a golden file lies: under another name where it is packed."""
    packed = path.with_name(f"{path.name}{_PACKED}")
    return packed if packed.exists() else path


def pack(path: Path) -> None:
    """Compress a file that is large for a repository."""
    if path.stat().st_size > _LARGEST:
        data = gzip.compress(path.read_bytes(), mtime=0)
        path.with_name(f"{path.name}{_PACKED}").write_bytes(data)
        path.unlink()


def unpack(folder: Path) -> None:
    """Put back what `pack` compressed."""
    for path in folder.rglob(f"*{_PACKED}"):
        path.with_name(path.name.removesuffix(_PACKED)).write_bytes(
            gzip.decompress(path.read_bytes())
        )
        path.unlink()
