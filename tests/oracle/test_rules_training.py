"""Taggers trained together with rules: objective and both gradients against enumeration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.arrays import Floats
from fstcrf.errors import LearningWarning, ModelFileError
from fstcrf.ext.course import structured
from fstcrf.ext.rules import TrainedWithRules, kernel, learn_rules, train_with_rules
from fstcrf.ext.rules.patterns import RuleFile, counting_automaton
from fstcrf.ext.rules.sentences import rule_sentences
from fstcrf.ext.rules.training import RuledProblem
from fstcrf.taggers import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.training import Chain
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import Likelihood, SummedLikelihood
from tests.support.rule_cases import LABELS, OPEN, RULES, TEMPLATES, corpus, labellings
from tests.support.training import flat_train

HARD = 'export FEW = at_most[2, "NP"];\n'
THREE = 'export X = each["[B-NP]" any* "[B-NP]" any* "[B-NP]", <?>];\n'  # HARD forbids it
ONE = 'export X = each["[I-NP]" "[B-NP]", <?>];\n'


def trained(name: str) -> CRF:
    template, order = TEMPLATES[name]
    return CRF.train(
        corpus(40, 1), "tag", template, order=order, l2=0.3, structure=Chain(ends=True)
    )


TAGGERS = {name: trained(name) for name in TEMPLATES}


@pytest.fixture(scope="module", params=list(TEMPLATES))
def tagger(request: pytest.FixtureRequest) -> CRF:
    return TAGGERS[request.param]


def objective(
    tagger: CRF, data: fstcrf.Corpus, rules: str = RULES, l2: float = 0.0, rule_l2: float = 0.0
) -> SummedLikelihood:
    return problem(tagger, data, rules).likelihood(l2, rule_l2)


def problem(tagger: CRF, data: fstcrf.Corpus, rules: str = RULES) -> RuledProblem:
    whole = JointCRF((tagger,), (1.0,))
    automaton = counting_automaton(RuleFile.of(rules), whole)
    sentences = rule_sentences(whole, automaton, data, None, "skip")
    return RuledProblem.of(tagger, sentences, automaton)


class Enumerated:
    """Features and rule counts of all legal labellings of some sentences, one by one."""

    def __init__(self, tagger: CRF, data: fstcrf.Corpus) -> None:
        self._sentences = [self._rows(tagger, sentence) for sentence in data]

    def _rows(
        self, tagger: CRF, sentence: fstcrf.text.corpus.Sentence
    ) -> tuple[Floats, Floats, int]:
        legal = list(labellings(list(sentence["word"])))
        rows = np.zeros((len(legal), tagger.space.size + len(OPEN)))
        for k in range(tagger.space.size):  # a feature is the score under a weight of one
            one = replace(tagger, theta=np.eye(1, tagger.space.size, k)[0]).lattice(sentence)
            rows[:, k] = [one.score(tags) for tags, _, _ in legal]
        rows[:, tagger.space.size :] = [found for _, found, _ in legal]
        gold = [tags for tags, _, _ in legal].index(list(sentence["tag"]))
        return rows, np.asarray([fixed for _, _, fixed in legal]), gold

    def __call__(self, theta: Floats, penalty: Floats) -> tuple[float, Floats]:
        value, gradient = float(penalty @ theta**2), 2.0 * penalty * theta
        for rows, fixed, gold in self._sentences:
            scores = rows @ theta + fixed
            log_z = np.logaddexp.reduce(scores)
            value += log_z - scores[gold]
            gradient = gradient + np.exp(scores - log_z) @ rows - rows[gold]
        return value, gradient


def legal(n: int, seed: int) -> fstcrf.Corpus:
    """Sentences whose gold labels the rules allow."""
    found = corpus(3 * n, seed)
    kept = [
        i
        for i, s in enumerate(found)
        if len(s) < 4 and list(s["tag"]) in [tags for tags, _, _ in labellings(list(s["word"]))]
    ]
    return found.select(kept[:n])


@cache
def enumerated(tagger: CRF) -> tuple[fstcrf.Corpus, Enumerated]:
    data = legal(5, 3)
    return data, Enumerated(tagger, data)


def penalty(tagger: CRF, l2: float, rule_l2: float) -> Floats:
    return np.repeat([l2, rule_l2], [tagger.space.size, len(OPEN)])


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [0.5, 12.0, 300.0])
def test_objective_and_gradients_are_those_of_enumeration(
    tagger: CRF, scale: float, variant: str
) -> None:
    data, wanted = enumerated(tagger)
    found = objective(tagger, data, l2=0.2, rule_l2=0.7)
    theta = scale * np.random.default_rng(1).normal(size=found.size)
    value, gradient = wanted(theta, penalty(tagger, 0.2, 0.7))
    own, slopes = found(theta)
    assert own == pytest.approx(value, rel=1e-11, abs=1e-9)
    assert slopes == pytest.approx(gradient, rel=1e-8, abs=1e-9)
    unit = np.full(found.size, 4.0)  # both penalties also hold in other units
    assert found.in_units(theta / unit, unit)[0] == pytest.approx(own, rel=1e-12)
    assert found.in_units(theta / unit, unit)[1] == pytest.approx(unit * slopes, rel=1e-12)


def test_the_oracle_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the counts, off by one part in a million, is noticed."""
    tagger = TAGGERS["pairs"]
    (data, wanted), exact = enumerated(tagger), kernel.expected_steps
    found = objective(tagger, data)
    theta = np.random.default_rng(1).normal(size=found.size)
    value, gradient = wanted(theta, np.zeros(found.size))
    for name in ("log_z", "read", "ended", "state", "pair"):

        def off(*given: Any, name: str = name, **more: Any) -> kernel.Counts:
            sums = exact(*given, **more)
            return sums._replace(**{name: getattr(sums, name) * (1.0 + 1e-6)})

        monkeypatch.setattr("fstcrf.ext.rules.training.expected_steps", off)
        own, slopes = found(theta)
        right = own == pytest.approx(value, rel=1e-11, abs=1e-9)
        assert not (right and slopes == pytest.approx(gradient, rel=1e-8, abs=1e-9)), name


def test_without_rules_it_is_the_likelihood_of_a_tagger(tagger: CRF) -> None:
    """Weights of zero, and of the hard rules none: value and gradient are CRF.train's."""
    ruled = problem(tagger, corpus(20, 4), ONE)
    found = ruled.likelihood(0.3, 9.0)
    plain = Likelihood(ruled.problem, ruled.space, l2=0.3, precision="float64")
    theta = np.append(np.random.default_rng(2).normal(size=tagger.space.size), 0.0)
    (value, gradient), (wanted, slopes) = found(theta), plain(theta[:-1])
    assert value == pytest.approx(wanted, rel=1e-12)
    assert gradient[:-1] == pytest.approx(slopes, rel=1e-9, abs=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["chain", "second order"])
def test_hard_rules_hold_in_training_as_a_grammar_of_crf_train_does(name: str) -> None:
    """A rule that they forbid, so none: the tagger of CRF.train(grammar=)."""
    data, (template, order) = corpus(60, 6), TEMPLATES[name]
    few = fstcrf.Grammar.from_text(HARD, LABELS)
    kept = [i for i, s in enumerate(data) if few.score(list(s["tag"])) == 0.0]
    assert len(kept) < len(data)
    data = data.select(kept)
    free = CRF.train(data, "tag", template, order=order, l2=0.3)
    how: dict[str, Any] = {"delta": 0.0, "max_iterations": 400}
    with pytest.warns(LearningWarning, match="has a match of X"):
        both = train_with_rules(free, data, THREE + HARD, start="zero", **structured(how))
    wanted = flat_train(data, "tag", template, order=order, l2=0.3, grammar=few, **how)
    assert both.weights == {"X": 0.0}
    ruled = both.tagger & both.grammar
    for sentence in data[:10]:
        assert log_p(ruled, sentence) == pytest.approx(log_p(wanted, sentence), abs=1e-3)
    # Rules that come after training make another model.
    late = free & few
    assert max(abs(log_p(late, s) - log_p(wanted, s)) for s in data[:10]) > 0.01


def log_p(tagger: CRF | fstcrf.Composition, sentence: fstcrf.text.corpus.Sentence) -> float:
    lattice = tagger.lattice(sentence)
    return lattice.score(list(sentence["tag"])) - lattice.log_partition()


@pytest.mark.thorough
def test_a_maximum_from_wherever_it_starts(tagger: CRF) -> None:
    data = corpus(60, 5)
    how: dict[str, Any] = {"l2": 0.2, "tagger_l2": 0.4, "on_missing": "skip"}
    how["method"] = LBFGS(delta=0.0)
    one = train_with_rules(tagger, data, RULES, **how)
    two = train_with_rules(tagger, data, RULES, start="zero", **how)
    assert one.tagger.theta == pytest.approx(two.tagger.theta, abs=1e-3)
    for rule in one.rules:  # counts agree but for the penalty
        assert two.weights[rule.name] == pytest.approx(rule.weight, abs=1e-3)
        assert rule.gold - rule.after == pytest.approx(0.4 * rule.weight, abs=1e-3)
    frozen = learn_rules(tagger, data, RULES, l2=0.2, on_missing="skip")
    assert one.after > frozen.after
    assert one.skipped == frozen.skipped


def test_what_is_returned_is_the_model(tagger: CRF) -> None:
    data = corpus(30, 7)
    both = train_with_rules(tagger, data, RULES, on_missing="skip", max_iterations=15)
    ruled, n, total = both.tagger & both.grammar, 0, 0.0
    weights = list(both.weights.values())
    for sentence in data:
        gold = list(sentence["tag"])
        for tags, found, fixed in labellings(list(sentence["word"])):
            if tags == gold:
                score = both.tagger.lattice(sentence).score(gold) + np.dot(weights, found) + fixed
                n, total = n + 1, total + score - ruled.lattice(sentence).log_partition()
    assert n == both.sentences
    assert both.after == pytest.approx(total / n, abs=1e-9)


@pytest.mark.thorough
def test_threads_and_a_run_in_two_parts_give_the_same_bits(tagger: CRF, tmp_path: Path) -> None:
    data, path = corpus(80, 8), tmp_path / "state"
    how: dict[str, Any] = {"on_missing": "skip", "delta": 0.0}

    def run(**more: Any) -> TrainedWithRules:
        return train_with_rules(tagger, data, RULES, **structured({**how, **more}))

    whole = run(max_iterations=12)
    assert run(max_iterations=12, threads=2).tagger.theta.tobytes() == whole.tagger.theta.tobytes()
    run(max_iterations=5, checkpoint=path, checkpoint_every=2)
    resumed = run(max_iterations=12, checkpoint=path, resume=True)
    assert resumed.tagger.theta.tobytes() == whole.tagger.theta.tobytes()
    assert resumed.rules == whole.rules
    with pytest.raises(ModelFileError, match="other data or options"):
        run(l2=0.7, checkpoint=path, resume=True)


def read_by(data: fstcrf.Corpus) -> fstcrf.Corpus:
    pos = [["P" if word == "a" else "Q" for word in sentence["word"]] for sentence in data]
    return data.with_column("pos", pos)


@pytest.mark.parametrize(
    "kind", ["for taggers of tokens", "hashed", "under a grammar", "reads a tape"]
)
def test_slopes_of_other_taggers(kind: str) -> None:
    data = read_by(corpus(30, 9))
    few = fstcrf.Grammar.from_text('export X = at_most[4, "NP"];')
    first = CRF.train(data, "pos", "U:%x[0,word]")
    chain = "U:%x[0,word]\nB"
    given: dict[str, tuple[str, dict[str, Any]]] = {
        "for taggers of tokens": ("U:%x[0,word]", {"order": 0}),
        "hashed": (chain, {"hash_bits": 10}),
        "under a grammar": (chain, {"grammar": few}),
        "reads a tape": (f"{chain}\nU1:%y[0,pos]", {"reads": [first]}),
    }
    template, options = given[kind]
    tagger = flat_train(data, "tag", template, l2=0.5, **options)
    found = objective(tagger, data, ONE + HARD, l2=0.1, rule_l2=0.2)
    rng = np.random.default_rng(4)
    theta, direction = rng.normal(size=(2, found.size))
    change = (found(theta + 1e-5 * direction)[0] - found(theta - 1e-5 * direction)[0]) / 2e-5
    assert found(theta)[1] @ direction == pytest.approx(change, rel=1e-6)
