"""Laws that every tagger keeps, whatever it is made of.

A new kind of tagger is a line in `KINDS`. Documents, which are tagged as corpora alone, come last.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf import CRF, Corpus, Grammar, compose
from fstcrf.constraints import at_most, label
from fstcrf.errors import DataError, OptionError, TemplateError
from fstcrf.ext.documents import Annealing, Consistency, Document, DocumentTagger, Violation
from fstcrf.ext.foreign.crfsuite import load_crfsuite, write_model
from fstcrf.taggers import JointCRF
from fstcrf.taggers.pipelines import TrainedPipeline, load_pipeline
from tests.support.crfsuite_models import random_model
from tests.support.joint_cases import WORDS, tagger, trained
from tests.support.strategies import fewer

TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=4), max_size=6)
THREADS = (2, 3)
MARGINALS_SUM = 1e-9


@dataclass(frozen=True)
class Kind:
    """How a tagger is made, what it reads and how it is read back.

    Parameters
    ----------
    make : callable
    attributes : bool
        It reads attribute lists, not columns.
    load : callable
        Reads what `save` wrote.
    """

    make: Callable[[], Any]
    attributes: bool = False
    load: Callable[[Path], Any] = fstcrf.load

    def sentences(self, text: list[list[str]]) -> list[Any]:
        if self.attributes:
            return [[_attributes(word) for word in words] for words in text]
        return [{"word": words} for words in text]


def _attributes(word: str) -> list[str]:
    """Attributes of `random_model`, and one that it does not know."""
    k = WORDS.index(word)
    return [name * (1 + n % 7) for n, name in ((k, f"a{k}"), (k + 7, f"a{k + 7}"))] + [word]


def _imported() -> CRF:
    return load_crfsuite(write_model(random_model(3)))


def _product() -> JointCRF:
    return compose(tagger("pos"), tagger("chunk"), tagger("last"), normalize="product")


def _chain() -> JointCRF:
    return compose(tagger("pos"), tagger("chunk"), normalize="chain")


def _pipeline(decode: Any) -> TrainedPipeline:
    return TrainedPipeline(_product(), decode)


ONCE = at_most(1, label("P0"), tape="pos")
APART = Grammar.from_text('tape pos; export APART = any* - (any* "[P1]" "[P1]" any*);')

KINDS: dict[str, Kind] = {
    "CRF of order 0": Kind(partial(tagger, "pos0")),
    "CRF of order 1": Kind(partial(tagger, "pos")),
    "CRF of order 2": Kind(partial(tagger, "pos2")),
    "CRF with hashed features": Kind(partial(trained, "pos", "U:%x[0,word]\nB\n", hash_bits=8)),
    "CRF with arc features": Kind(partial(trained, "pos", "U:%x[0,word]\nB1:%x[0,word]\n")),
    "model of CRFsuite": Kind(_imported, attributes=True),
    "CRF & grammar": Kind(lambda: tagger("pos") & ONCE),
    "CRF of order 2 & grammars": Kind(lambda: tagger("pos2") & ONCE & APART),
    "model of CRFsuite & grammar": Kind(lambda: _imported() & at_most(1, label("L0")), True),
    "product": Kind(_product),
    "product & grammar": Kind(lambda: _product() & ONCE),
    "chain": Kind(_chain),
    "chain & grammar": Kind(lambda: _chain() & ONCE),
    "pipeline by cascade": Kind(partial(_pipeline, "cascade"), load=load_pipeline),
    "pipeline, joint": Kind(partial(_pipeline, "joint"), load=load_pipeline),
    "pipeline by marginals": Kind(partial(_pipeline, "marginals"), load=load_pipeline),
}
COLUMN_KINDS = [name for name, kind in KINDS.items() if not kind.attributes]
WITHOUT_MARGINALS = {"chain", "chain & grammar"}  # of their first tape alone
TEXT = [["a", "b", "c"], [], ["e"], ["d", "d", "a", "b"], ["c", "a"]] * 4


@cache
def made(name: str) -> Any:
    return KINDS[name].make()


def as_labels(labels: Any) -> Any:
    """Labels of a path as `tag` gives them."""
    if labels and isinstance(labels[0], tuple):
        return tuple(map(list, labels))
    return list(labels)


every_kind = pytest.mark.parametrize("name", KINDS)


def check_marginals(name: str, text: list[list[str]]) -> None:
    crf, sentences = made(name), KINDS[name].sentences(text)
    if name in WITHOUT_MARGINALS:
        with pytest.raises(OptionError, match="marginals"):
            crf.marginals_all(sentences)
        return
    for words, found in zip(text, crf.marginals_all(sentences), strict=True):
        for table in found if isinstance(found, tuple) else (found,):
            assert table.shape[0] == len(words)
            assert (table >= 0).all()
            np.testing.assert_allclose(table.sum(axis=1), 1, atol=MARGINALS_SUM)


JOINT_KINDS = [n for n in KINDS if n.startswith(("CRF", "model", "product", "pipeline, joint"))]
OTHER_KINDS = [n for n in KINDS if n not in JOINT_KINDS]
BIAS = 3.0


@pytest.mark.thorough
@every_kind
@fewer(2)
@given(text=TEXTS)
def test_all_that_is_asked_is_one_answer(name: str, text: list[list[str]]) -> None:
    """A sentence alone is tagged as among others, with the labels of the best path."""
    crf, sentences = made(name), KINDS[name].sentences(text)
    answer, tagged = crf.decode(sentences, n=2), crf.tag_all(sentences)
    assert [crf.tag(sentence) for sentence in sentences] == tagged
    paths, ranked = crf.paths_all(sentences), crf.nbest_all(sentences, 2)
    assert [as_labels(path.labels) for path in paths] == tagged
    for words, path in zip(text, paths, strict=True):
        assert 0 < path.probability <= 1 + MARGINALS_SUM
        assert words or path.probability == 1
    check_marginals(name, text)
    assert [answer.paths(b) for b in range(len(sentences))] == ranked
    assert [as_labels(paths[0].labels) for paths in ranked] == tagged
    columns = crf.tag_columns(sentences)
    rows = [s if isinstance(s, tuple) else (s,) for s in tagged]
    wanted = [[label for row in rows for label in row[k]] for k in range(len(crf.tapes))]
    assert [list(column.strings()) for column in columns] == wanted
    if len(columns) > 1:
        with pytest.raises(OptionError, match="several tapes"):
            crf.tag_column(sentences)
    else:
        assert list(crf.tag_column(sentences).strings()) == wanted[0]


def by_tape(crf: Any, labels: Any) -> dict[str, Any]:
    return dict(zip(crf.tapes, labels if len(crf.tapes) > 1 else (labels,), strict=True))


def whole(crf: Any, sentence: Any) -> Any:
    return getattr(crf, "composition", crf).lattice(sentence)


@pytest.mark.parametrize("name", JOINT_KINDS)
@fewer(3)
@given(text=TEXTS, data=st.data())
def test_forced_labels_restrict_the_lattice(name: str, text: list[list[str]], data: Any) -> None:
    crf, sentences = made(name), KINDS[name].sentences(text)
    known = []
    for ranked in crf.nbest_all(sentences, 3):  # of some path, so that there is one
        labels = by_tape(crf, ranked[-1].labels)
        hidden = {t: [data.draw(st.booleans()) for _ in row] for t, row in labels.items()}
        known.append(
            {
                tape: [None if no else x for no, x in zip(hidden[tape], row, strict=True)]
                for tape, row in labels.items()
            }
        )
    tagged = crf.tag_all(sentences, forced=known)
    pairs = list(zip(sentences, known, strict=True))
    assert tagged == [crf.tag(s, forced=labels) for s, labels in pairs]
    paths, tables = (ask(sentences, forced=known) for ask in (crf.paths_all, crf.marginals_all))
    for (sentence, labels), found, path, table in zip(pairs, tagged, paths, tables, strict=True):
        if not len(next(iter(labels.values()))):
            continue
        masks = [
            np.array([[x in {None, label} for label in crf.label_sets[t]] for x in row])
            for t, row in labels.items()
        ]
        several = len(masks) > 1
        lattice = whole(crf, sentence).restrict(masks if several else masks[0])
        assert as_labels(path.labels) == as_labels(lattice.best().labels) == found
        assert path.probability == pytest.approx(lattice.best().probability, rel=1e-9)
        ours, theirs = (x if several else (x,) for x in (table, lattice.marginals()))
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-9)


@pytest.mark.parametrize("name", JOINT_KINDS)
@fewer(3)
@given(text=TEXTS)
def test_a_bias_is_added_at_every_token(name: str, text: list[list[str]]) -> None:
    crf, sentences = made(name), KINDS[name].sentences(text)
    tape = crf.tapes[-1]
    label = crf.label_sets[tape][-1]
    bias = {tape: {label: BIAS}}
    paths = crf.paths_all(sentences, bias=bias)
    assert [as_labels(p.labels) for p in paths] == crf.tag_all(sentences, bias=bias)
    assert crf.tag_all(sentences, bias=bias) == [crf.tag(s, bias=bias) for s in sentences]
    for sentence, path in zip(sentences, paths, strict=True):
        more = BIAS * by_tape(crf, path.labels)[tape].count(label)
        plain = whole(crf, sentence).score(path.labels) if len(sentence) else 0.0
        assert path.score == pytest.approx(plain + more, rel=1e-9, abs=1e-9)
    for table in crf.marginals_all(sentences, bias=bias):
        for rows in table if isinstance(table, tuple) else (table,):
            np.testing.assert_allclose(rows.sum(axis=1), 1, atol=MARGINALS_SUM)


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_known_labels_are_obeyed_tagger_by_tagger(name: str) -> None:
    """Where no transducer is restricted: by the chain rule, in cascades and by marginals."""
    crf, sentences = made(name), KINDS[name].sentences(TEXT)
    tape = crf.tapes[0]
    label = crf.label_sets[tape][-1]
    known = [{tape: [label, *[None] * (len(words) - 1)]} if words else None for words in TEXT]
    for ask in (crf.tag_all, crf.paths_all):
        for words, found in zip(TEXT, ask(sentences, forced=known), strict=True):
            labels = found if isinstance(found, list | tuple) else found.labels
            assert not words or labels[0][0] == label
    liked = crf.tag_all(sentences, bias={tape: {label: 50.0}})
    assert all(set(labels[0]) <= {label} for labels in liked)


@every_kind
def test_a_way_to_search_that_there_is_not(name: str) -> None:
    crf, sentences = made(name), KINDS[name].sentences(TEXT)
    with pytest.raises(OptionError, match="search"):
        crf.decode(sentences, search="fast")


@every_kind
def test_threads_do_not_matter(name: str) -> None:
    crf, sentences = made(name), KINDS[name].sentences(TEXT)
    one = crf.tag_all(sentences, threads=1), crf.paths_all(sentences, threads=1)
    for n in THREADS:
        assert (crf.tag_all(sentences, threads=n), crf.paths_all(sentences, threads=n)) == one
        if name not in WITHOUT_MARGINALS:
            tables = [crf.marginals_all(sentences, threads=m) for m in (1, n)]
            assert pickle.dumps(tables[0]) == pickle.dumps(tables[1])
    with pytest.raises(OptionError, match="threads is 0"):
        crf.tag_all(sentences, threads=0)


@every_kind
def test_saved_and_loaded_it_is_the_same(name: str, tmp_path: Path) -> None:
    crf, kind = made(name), KINDS[name]
    crf.save(tmp_path / "saved")
    again, sentences = kind.load(tmp_path / "saved"), kind.sentences(TEXT)
    assert again.tag_all(sentences) == crf.tag_all(sentences)
    assert again.paths_all(sentences) == crf.paths_all(sentences)


@pytest.mark.parametrize("name", COLUMN_KINDS)
def test_a_corpus_is_its_sentences(name: str) -> None:
    crf, sentences = made(name), KINDS[name].sentences(TEXT)
    corpus = Corpus.from_sentences(sentences)
    assert crf.tag_all(corpus) == crf.tag_all(sentences)
    assert crf.paths_all(corpus) == crf.paths_all(sentences)


@pytest.mark.parametrize("name", COLUMN_KINDS)
def test_a_column_that_is_not_there(name: str) -> None:
    crf, wrong = made(name), {"form": ["a"]}
    corpus = Corpus.from_sentences([wrong])
    for tag, data in (
        (crf.tag, wrong),
        (crf.tag, corpus[0]),
        (crf.tag_all, [wrong]),
        (crf.tag_all, corpus),
        (crf.paths_all, corpus),
    ):
        with pytest.raises((DataError, TemplateError), match="column 'word'; the corpus has 'form"):
            tag(data)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.attributes])
def test_columns_where_attributes_are_read(name: str) -> None:
    crf, columns = made(name), {"word": ["a"]}
    with pytest.raises(DataError, match="reads attribute lists"):
        crf.tag(columns)
    with pytest.raises(DataError, match="not columns"):
        crf.tag_all(Corpus.from_sentences([columns]))


# --- Documents ------------------------------------------------------------------------------------

NAMES = {"a": "B-ORG", "b": "I-ORG", "c": "B-PER", "d": "O", "e": "O"}
SAME = Consistency([Violation("same", ("ORG", "PER"), -2.0)], tape="ner")


def _named() -> CRF:
    corpus = Corpus.from_sentences([{"word": words} for words in TEXT if words])
    labels = [[NAMES[word] for word in words] for words in TEXT if words]
    return CRF.train(corpus.with_column("ner", labels), "ner", "U:%x[0,word]\nB\n", l2=0.5)


DOCUMENT_TAGGERS: dict[str, Callable[[], Any]] = {
    "CRF": _named,
    "CRF & grammar": lambda: _named() & at_most(1, "ORG"),
    "product": lambda: compose(_named(), tagger("pos"), normalize="product"),
    "pipeline": lambda: TrainedPipeline(compose(_named(), tagger("pos"), normalize="product")),
}

every_document_tagger = pytest.mark.parametrize("name", DOCUMENT_TAGGERS)


@cache
def decided(name: str) -> DocumentTagger:
    return DocumentTagger(DOCUMENT_TAGGERS[name](), [SAME], Annealing(10))


@every_document_tagger
@given(text=TEXTS)
def test_documents_have_the_same_labels_each_time(name: str, text: list[list[str]]) -> None:
    crf, corpus = decided(name), Corpus.from_sentences([{"word": words} for words in text])
    found = crf.tag_all(corpus)
    assert found == crf.tag_all(corpus)
    for words, labels in zip(text, found, strict=True):
        tapes = labels if isinstance(labels, tuple) else (labels,)
        assert [len(tape) for tape in tapes] == [len(words)] * len(crf.tapes)


@every_document_tagger
def test_a_document_alone_is_tagged_as_in_a_corpus(name: str) -> None:
    crf, corpus = decided(name), Corpus.from_sentences([{"word": words} for words in TEXT])
    tokens = crf.tag_document(Document(corpus))
    found = crf.tag_all(corpus)
    flat = [zip(*s, strict=True) if isinstance(s, tuple) else ((x,) for x in s) for s in found]
    assert [token for sentence in flat for token in sentence] == tokens


@every_document_tagger
def test_without_models_documents_have_the_labels_of_their_sentences(name: str) -> None:
    local = DOCUMENT_TAGGERS[name]()
    corpus = Corpus.from_sentences([{"word": words} for words in TEXT])
    wanted = local.tag_all(corpus, **({"decode": "joint"} if name == "pipeline" else {}))
    assert DocumentTagger(local).tag_all(corpus) == wanted


@every_document_tagger
def test_a_column_that_no_document_has(name: str) -> None:
    crf, corpus = decided(name), Corpus.from_sentences([{"form": ["a"]}])
    with pytest.raises((DataError, TemplateError), match="column 'word'; the corpus has 'form"):
        crf.tag_all(corpus)
    with pytest.raises(DataError, match="expected a Corpus"):
        crf.tag_all([{"word": ["a"]}])
