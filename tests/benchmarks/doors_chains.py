"""The chain rule under rules over two tapes: ``python -m tests.benchmarks.doors_chains WORK JSON``.

It does one piece of work, as `tests.benchmarks.doors` does: drawn sentences, or those of a
treebank.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fstcrf import CRF, Composition, Corpus, Grammar, compose, read_conllu
from fstcrf.errors import InexactWarning
from fstcrf.training import Gold
from tests.benchmarks.door_cases import Row, measured
from tests.benchmarks.doors_lattices import Rows
from tests.benchmarks.work import answer

Text = list[dict[str, list[str]]]

_TEXT, _DRAWN, _MOST = 60, 400, 800
_AGREEMENT = """
tape upos, feats;
A = label["upos=ADJ feats=.*Case=.*"];
N = label["upos=NOUN feats=.*Case=.*"];
SAME = each c in values["feats", "Case=([^|]*)"] {
  label["upos=ADJ feats=.*Case={c}[|].*"] label["upos=NOUN feats=.*Case={c}[|].*"]
};
export AGREE = any* - (any* ((A N) - SAME) any*);
"""
_NUMBER = """
tape upos, feats;
A = label["upos=(FIRST) feats=.*Number=.*"];
B = label["upos=(SECOND) feats=.*Number=.*"];
SAME = each c in values["feats", "Number=([^|]*)"] {
  label["upos=(FIRST) feats=.*Number={c}([|].*)?"]
  label["upos=(SECOND) feats=.*Number={c}([|].*)?"]
};
export AGREE = any* - (any* ((A B) - SAME) any*);
"""
_RULES = {
    "noun": ("DET|ADJ", "NOUN"),
    "verb": ("NOUN|PRON", "AUX|VERB"),
    "all neighbours": (".*", ".*"),
}
_SHORT = ("U0:%x[0,word]\nU1:%x[0,suffix(word,2)]\nB", "U0:%x[0,word]\nU1:%y[0,upos]\nB")
_WORDS = "".join(f"U{k}:%x[{k - 2},word]\n" for k in range(5)) + "".join(
    f"U{k}{n}:%x[0,{end}(word,{n})]\n"
    for k, end in ((5, "prefix"), (6, "suffix"))
    for n in (1, 2, 3)
)
_RICH = (f"{_WORDS}B", f"{_WORDS}U7:%y[0,upos]\nU8:%y[0,upos]/%x[0,word]\nB")


def chains(seconds: float, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of drawn sentences, with and without a rule over two tapes."""
    rows = (row for cases in ((3,) if quick else (24, 12, 3)) for row in _drawn(cases))
    return {"cases": measured(rows, seconds)}


def treebank(data: str, seconds: float, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of 100 sentences of a treebank whose features agree."""
    return {"cases": measured(_treebank(Path(data) / "ud_english_ewt", quick=quick), seconds)}


# --- Drawn sentences ------------------------------------------------------------------------------


def _phrases(cases: int, size: int) -> Text:
    """Return sentences of adjectives, nouns that agree with them, and verbs."""
    rng, texts = np.random.default_rng(1), []
    for _ in range(size):
        rows: list[tuple[str, str, str]] = []
        while len(rows) < 9:
            c, x, y = rng.integers(cases), rng.integers(8), rng.integers(30)
            feats = f"Case={c}|X={x}"
            if rng.random() < 0.5:
                rows.append((str(rng.choice(["u", "v", "w"])), "VERB", "_"))
                continue
            if rng.random() < 0.6:
                rows.append((f"a{c}{x}{y % 2}", "ADJ", feats))
            noun = f"n{c}{x}{y % 2}" if rng.random() < 0.6 else f"m{y}"
            rows.append((noun, "NOUN", feats))
        words, upos, feats_of = zip(*rows, strict=True)
        texts.append({"word": [*words], "upos": [*upos], "feats": [*feats_of]})
    return texts


def _drawn(cases: int) -> Rows:
    drawn = _phrases(cases, _MOST)
    template = "U0:%x[0,prefix(word,1)]\nU1:%x[-1,word]\nB"
    reads = "U0:%x[0,word]\nU1:%y[0,upos]"  # no pairs of labels: many answers break the rule
    pos, feats = _trained(Corpus.from_sentences(drawn[:_DRAWN]), (template, reads))
    rule = Grammar.from_text(_AGREEMENT)
    free = compose(pos, feats, normalize="chain")
    bound = compose(pos, feats, normalize="chain", grammar=rule)
    obeys, breaks = _parted(free, rule, [{"word": s["word"]} for s in drawn[_DRAWN:]])
    labels, near = f"{len(feats.labels)} labels", cases != 24
    for share in (100, 90, 50):
        broken = min(_TEXT * (100 - share) // 100, len(breaks))
        text = breaks[:broken] + obeys[: _TEXT - broken]
        door = f"chain-rule-{'all' if share == 100 else share}"
        for n in (1, 5):
            asks = (partial(one.decode, text, n=n) for one in (bound, free))
            shown = f"{labels}, n = {n}, {broken} of {len(text)} broken"
            yield Row(door, shown, tuple(asks), near=near)
        alone = (partial(_each, one, text[-20:]) for one in (bound, free))
        yield Row(door, f"{labels}, one sentence a call", tuple(alone), near=True)
        cascade = partial(_cascade, pos, feats, text)
        shown = f"{labels}, {broken} of {len(text)} broken"
        yield Row("chain-cascade", shown, (partial(bound.tag_all, text), cascade), near=share < 100)
    long = [{"word": [word for s in part for word in s["word"]]} for part in _parts(obeys + breaks)]
    asks = (partial(one.decode, long) for one in (bound, free))
    yield Row("chain-rule-all", f"{labels}, {len(long)} of 200 tokens", tuple(asks), near=True)


def _parts(text: Text) -> Iterable[Text]:
    """Return what makes sentences of some 200 tokens."""
    return (text[k : k + 20] for k in range(0, 60, 20))


def _trained(train: Corpus, templates: tuple[str, str]) -> tuple[CRF, CRF]:
    pos = CRF.train(train, "upos", templates[0], max_iterations=8)
    known = Gold("feats", partial=False)  # "_" is a label
    return pos, CRF.train(train, known, templates[1], reads=[pos], max_iterations=8)


def _parted(free: Composition, rule: Grammar, text: Text) -> tuple[Text, Text]:
    """Return the sentences whose free answers obey a rule, and those whose do not."""
    legal = rule.bound(free.label_sets)
    parts: tuple[Text, Text] = ([], [])
    for sentence, labels in zip(text, free.tag_all(text), strict=True):
        broken = not legal.accepts(dict(zip(free.tapes, labels, strict=True)))
        parts[broken].append(sentence)
    return parts


def _cascade(pos: CRF, feats: CRF, text: Text) -> object:
    labels = pos.tag_all(text)
    return feats.tag_all([{**s, "upos": x} for s, x in zip(text, labels, strict=True)])


def _each(tagger: Composition, text: Text) -> None:
    for sentence in text:
        tagger.tag(sentence)


# --- A treebank -----------------------------------------------------------------------------------


def _treebank(folder: Path, *, quick: bool) -> Rows:
    train, dev = (_columns(folder / f"en_ewt-ud-{part}.conllu") for part in ("train", "dev"))
    train = train.select(range(300)) if quick else train
    text: Text = [{"word": list(s["word"])} for s in dev.select(range(0, 2_000, 20))]
    for name, templates in {"short": _SHORT, "rich": _RICH}.items():
        pos, feats = _trained(train, templates)
        cascade = partial(_cascade, pos, feats, text)
        free = compose(pos, feats, normalize="chain")
        for kind, sides in _RULES.items():
            rule = Grammar.from_text(_number(sides))
            broken = len(_parted(free, rule, text)[1])
            shown = f"{name} templates, {len(feats.labels)} labels, {kind}: {broken} broken"
            near = kind == "all neighbours"
            chain, product = (
                compose(pos, feats, normalize=way, grammar=rule) for way in ("chain", "product")
            )
            yield Row("ewt-chain", shown, (partial(chain.tag_all, text), cascade), near=near)
            yield Row("ewt-product", shown, (partial(product.tag_all, text),), near=near)


def _columns(path: Path) -> Corpus:
    whole = read_conllu(path)
    names = {"word": "form", "upos": "upos", "feats": "feats"}
    return Corpus({ours: whole.columns[its] for ours, its in names.items()}, whole.offsets)


def _number(sides: Sequence[str]) -> str:
    return _NUMBER.replace("FIRST", sides[0]).replace("SECOND", sides[1])


if __name__ == "__main__":
    warnings.simplefilter("ignore", InexactWarning)
    answer(globals())
