"""Questions about lattices through two doors: a costly question over a cheap one.

``python -m tests.benchmarks.doors_lattices WORK JSON`` does one piece of work, as
`tests.benchmarks.doors` does. Each answer is of a fresh lattice, since a lattice keeps its sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import numpy as np
import pynini
import pywrapfst

import fstcrf
from fstcrf import CRF, Corpus, Grammar, Lattice, Lattices, Transducer, compose
from fstcrf.arrays import Floats
from fstcrf.constraints import at_most, bio, bioes, contiguous
from fstcrf.errors import InexactWarning
from fstcrf.training import Gold
from tests.benchmarks.running import least_seconds
from tests.benchmarks.work import answer, seconds_of

TOKENS, BATCH, RANKED = 20, 64, 10

Ask = Callable[[], object]


def lattices(rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of lattices, arrays, transducers and grammars."""
    families = (_gradients, _no_transitions, _arrays, _ranked, _grammars, _transducers)
    return {"cases": [_case(rounds, *row) for family in families for row in family(quick=quick)]}


def chains(rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of the chain rule under a rule over two tapes."""
    return {"cases": [_case(rounds, *row) for row in _chains(quick=quick)]}


def _case(rounds: int, door: str, text: str, ask: Ask, other: Ask) -> dict[str, Any]:
    first = seconds_of(ask)
    own, cheap = least_seconds(rounds, ask, other)
    return {
        "door": door,
        "text": text,
        "first_s": first,
        "s": own,
        "other_s": cheap,
        "ratio": own / cheap,
    }


Rows = list[tuple[str, str, Ask, Ask]]


def _names(n: int) -> list[str]:
    return [f"l{k}" for k in range(n)]


def _scores(*shape: int) -> Floats:
    return np.random.default_rng(0).normal(size=shape)


# --- Lattices and arrays --------------------------------------------------------------------------


def _reader(labels: list[str]) -> Transducer:
    """Return a transducer of two states: the first two labels lead from one to the other."""
    arcs = [f"0 0 {x} A" for x in labels] + [f"1 1 {x} A" for x in labels]
    arcs += [f"0 1 {x} B 1" for x in labels[:2]]
    return Transducer.from_text("\n".join([*arcs, "0", "1"]), tape="z")


def _under(labels: list[str], scores: Floats, table: Floats | None, reader: Transducer) -> Any:
    return Lattice.from_arrays(labels, scores, table, tape="x") @ reader


def _asked(made: Callable[[], Any], question: str, *given: object) -> object:
    return getattr(made(), question)(*given)


def _gradients(*, quick: bool) -> Rows:
    """Gradient over log Z, of a lattice with a transducer."""
    rows: Rows = []
    for size in (25, 50) if quick else (12, 25, 50, 100):
        labels, reader = _names(size), _reader(_names(size))

        made = partial(_under, labels, _scores(TOKENS, size), None, reader)
        gradient, log_z = (partial(_asked, made, name) for name in ("gradient", "log_partition"))
        rows.append(("gradient", f"{size} labels", gradient, log_z))
    return rows


def _no_transitions(*, quick: bool) -> Rows:
    """log Z without transitions under a transducer, over the same paths from OpenFst."""
    rows: Rows = []
    for size in (100,) if quick else (100, 300, 1_000):
        labels, scores = _names(size), _scores(TOKENS, size)
        memory = _reader(labels)
        fst = pynini.Fst(arc_type="log64")
        fst.add_states(TOKENS + 1)
        fst.set_start(0).set_final(TOKENS)
        symbols = pywrapfst.SymbolTable()
        symbols.add_symbol("<eps>", 0)
        for k, label in enumerate(labels):
            symbols.add_symbol(label, k + 1)
        for (t, k), score in np.ndenumerate(scores):
            weight = pywrapfst.Weight("log64", -score)
            fst.add_arc(t, pywrapfst.Arc(k + 1, k + 1, weight, t + 1))
        fst.set_input_symbols(symbols).set_output_symbols(symbols)
        paths = partial(_log_z, partial(Lattice.from_fst, fst), memory)
        arrays = partial(_log_z, partial(Lattice.from_arrays, labels, scores), memory)
        rows.append(("no-transitions", f"{size} labels", arrays, paths))
    return rows


def _log_z(made: Callable[[], Any], reader: Transducer) -> float:
    total: float = (made() @ reader).log_partition()
    return total


def _arrays(*, quick: bool) -> Rows:
    """Marginals over decoding, and a low score over ordinary ones."""
    rows: Rows = []
    for size in (22, 200) if quick else (9, 22, 45, 200):
        labels, scores, table = _names(size), _scores(16, 64, size), _scores(size, size)
        low = scores.copy()
        low[0, 30, 0] -= 760.0
        usual = partial(Lattices.from_arrays, labels, scores, table)
        lowered = partial(Lattices.from_arrays, labels, low, table)
        decoded = partial(fstcrf.decode, scores, transitions=table, labels=labels)
        marginals = partial(_asked, usual, "marginals")
        low_z, log_z = (partial(_asked, made, "log_partition") for made in (lowered, usual))
        rows.append(("marginals", f"[16, 64, {size}]", marginals, decoded))
        rows.append(("low-score", f"{size} labels", low_z, log_z))
    pairs = list(zip(_scores(16, 30, 45), _scores(16, 30, 22), strict=True))[: 4 if quick else 16]
    rows.append(
        (
            "joint-arcs",
            "45 × 22 labels",
            lambda: [_pair(one, two).arc_marginals() for one, two in pairs],
            lambda: [_pair(one, two).log_partition() for one, two in pairs],
        )
    )
    return rows


def _pair(one: Floats, two: Floats) -> Any:
    """Return the lattice of two tapes, 45 × 22 labels."""
    second = [f"m{k}" for k in range(22)]
    return Lattice.from_arrays(_names(45), one, _scores(45, 45), tape="a") @ Lattice.from_arrays(
        second, two, _scores(22, 22), tape="b"
    )


def _ranked(*, quick: bool) -> Rows:
    """The 10 best over the best, under a transducer."""
    rows: Rows = []
    for size in (22,) if quick else (22, 45, 200):
        labels, reader = _names(size), _reader(_names(size))
        made = partial(_under, labels, _scores(TOKENS, size), _scores(size, size), reader)
        best = partial(_asked, made, "best")
        rows.append(("ten-best", f"{size} labels", partial(_asked, made, "nbest", RANKED), best))
    return rows


# --- Grammars and transducers ---------------------------------------------------------------------


def _spans(types: int, scheme: str = "BI") -> list[str]:
    return ["O", *(f"{place}-T{k}" for k in range(types) for place in scheme)]


def _decoded(labels: list[str], scores: Floats, grammar: Any) -> object:
    return fstcrf.decode(scores, labels=labels, grammar=grammar)


def _grammars(*, quick: bool) -> Rows:
    sizes = {n: (_spans(n // 2), _scores(16, 64, n // 2 * 2 + 1)) for n in (255, 257)}
    rows: Rows = [
        (
            "labels-257",
            "bio()",
            partial(_decoded, *sizes[257], bio()),
            partial(_decoded, *sizes[255], bio()),
        )
    ]
    for types in (4,) if quick else (2, 4, 10):
        labels = _spans(types)
        scores = _scores(16, 64, len(labels))
        rule = bio() & at_most(2, labels[1])
        rows.append(
            (
                "at-most",
                f"{len(labels)} labels",
                partial(_decoded, labels, scores, rule),
                partial(_decoded, labels, scores, bio()),
            )
        )
    if not quick:
        labels = _spans(12, "BIES")
        scores = _scores(16, 40, len(labels)) * 3
        rule = bioes()
        for label in labels[1:]:
            rule = rule & contiguous(label) if label.startswith("S-") else rule
        rows.append(
            (
                "contiguous",
                "12 types, 16 documents",
                partial(_decoded, labels, scores, rule),
                partial(_decoded, labels, scores, bioes()),
            )
        )
    return rows


def _edit(symbols: list[str]) -> Transducer:
    """Return the edits of a string: a state, an arc for each pair of symbols or of no symbol."""
    pairs = [
        (a, b) for a in ["<eps>", *symbols] for b in ["<eps>", *symbols] if (a, b) != ("<eps>",) * 2
    ]
    arcs = [f"0 0 {a} {b} {0 if a == b else 1}" for a, b in pairs]
    return Transducer.from_text(
        "\n".join([*arcs, "0"]), input_symbols=symbols, output_symbols=symbols
    )


def _transducers(*, quick: bool) -> Rows:
    """`edit @ lexicon`, over OpenFst."""
    rows: Rows = []
    rng = np.random.default_rng(0)
    for size in (15,) if quick else (15, 30, 60):
        symbols = _names(size)
        words = [[symbols[k] for k in rng.integers(size, size=6)] for _ in range(200)]
        arcs, state = [], 1
        for word in words:
            for place, symbol in enumerate(word):
                arcs.append(f"{0 if place == 0 else state - 1} {state} {symbol} {symbol}")
                state += 1
            arcs.append(f"{state - 1}")
        edit = _edit(symbols)
        lexicon = Transducer.from_text(
            "\n".join(arcs), input_symbols=symbols, output_symbols=symbols
        )
        machines = [machine.to_fst("log64") for machine in (edit, lexicon)]
        for machine in machines:  # both list the symbols in one order
            machine.set_input_symbols(None).set_output_symbols(None)
        machines[1].arcsort("ilabel")
        ours, theirs = partial(matmul, edit, lexicon), partial(pynini.compose, *machines)
        rows.append(("edit-lexicon", f"{size} symbols", ours, theirs))
    return rows


# --- The chain rule -------------------------------------------------------------------------------

_AGREEMENT = """
tape upos, feats;
A = label["upos=ADJ feats=.*Case=.*"];
N = label["upos=NOUN feats=.*Case=.*"];
SAME = each c in values["feats", "Case=([^|]*)"] {
  label["upos=ADJ feats=.*Case={c}[|].*"] label["upos=NOUN feats=.*Case={c}[|].*"]
};
export AGREE = any* - (any* ((A N) - SAME) any*);
"""


def _phrases(cases: int, size: int) -> list[dict[str, list[str]]]:
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


def _cascade(pos: CRF, feats: CRF, text: list[dict[str, list[str]]]) -> object:
    labels = pos.tag_all(text)
    return feats.tag_all([{**s, "upos": x} for s, x in zip(text, labels, strict=True)])


def _chains(*, quick: bool) -> Rows:
    """The chain rule under a rule over two tapes, over the chain alone; and over the cascade."""
    rows: Rows = []
    for cases in (3,) if quick else (3, 12, 24):
        train = Corpus.from_sentences(_phrases(cases, 400))
        text = [{"word": s["word"]} for s in _phrases(cases, 460)[400:]]
        template = "U0:%x[0,prefix(word,1)]\nU1:%x[-1,word]\nB"
        pos = CRF.train(train, "upos", template, max_iterations=8)
        reads = "U0:%x[0,word]\nU1:%y[0,upos]\nB"
        known = Gold("feats", partial=False)  # "_" is a label
        feats = CRF.train(train, known, reads, reads=[pos], max_iterations=8)
        free = compose(pos, feats, normalize="chain")
        rule = compose(pos, feats, normalize="chain", grammar=Grammar.from_text(_AGREEMENT))
        for n in (1, 5):
            rows.append(
                (
                    "chain-rule",
                    f"{len(feats.labels)} labels, n = {n}",
                    partial(rule.decode, text, n=n),
                    partial(free.decode, text, n=n),
                )
            )

        cascade = partial(_cascade, pos, feats, text)
        chain = partial(rule.tag_all, text)
        rows.append(("chain-cascade", f"{len(feats.labels)} labels", chain, cascade))
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore", InexactWarning)
    answer(globals())
