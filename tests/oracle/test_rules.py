"""Rules with learned weights against enumeration: log Z, expected counts, gradients, files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import fstcrf
from fstcrf.ext.rules import learn_rules
from fstcrf.ext.rules.learning import RuleExpectation, potentials
from fstcrf.ext.rules.patterns import RuleFile, counting_automaton
from fstcrf.ext.rules.sentences import rule_sentences
from fstcrf.kernel.native import SERIAL
from fstcrf.taggers import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.training import Run
from tests.support.rule_cases import RULES, TEMPLATES, corpus, labellings


@pytest.fixture(scope="module", params=list(TEMPLATES))
def tagger(request: pytest.FixtureRequest) -> CRF:
    template, order = TEMPLATES[request.param]
    return CRF.train(corpus(40, 1), "tag", template, order=order, l2=0.3)


def expectation(tagger: CRF, data: fstcrf.Corpus) -> RuleExpectation:
    whole = JointCRF((tagger,), (1.0,))
    automaton = counting_automaton(RuleFile.of(RULES), whole)
    sentences = rule_sentences(whole, automaton, data, None, "skip")
    return RuleExpectation(potentials(whole, sentences), automaton, workers=SERIAL)


def enumerated(
    tagger: CRF, data: fstcrf.Corpus, weights: Sequence[float]
) -> tuple[float, list[float]]:
    """Return the sum of log Z and expected counts over all labellings, one by one."""
    total, expected = 0.0, np.zeros(3)
    for sentence in data:
        lattice = tagger.lattice(sentence)
        scores, rows = [], []
        for tags, found, fixed in labellings(list(sentence["word"])):
            rows.append(found)
            scores.append(lattice.score(tags) + np.dot(weights, found) + fixed)
        log_z = np.logaddexp.reduce(scores)
        total += float(log_z)
        expected += np.exp(np.asarray(scores) - log_z) @ np.asarray(rows)
    return total, expected.tolist()


@pytest.mark.parametrize("weights", [(0.0, 0.0, 0.0), (1.5, -0.7, 2.0), (-40.0, 30.0, -20.0)])
def test_sums_and_expected_counts(tagger: CRF, weights: tuple[float, ...]) -> None:
    data = corpus(6, 3)
    log_z, expected = expectation(tagger, data)(np.asarray(weights))
    wanted = enumerated(tagger, data, weights)
    assert log_z == pytest.approx(wanted[0], rel=1e-12)
    assert expected == pytest.approx(wanted[1], rel=1e-9, abs=1e-12)


def test_the_file_that_is_learned_is_the_model(tagger: CRF) -> None:
    data = corpus(25, 2)
    learned = learn_rules(tagger, data, RULES, l2=0.2, on_missing="skip")
    assert list(learned.weights) == ["TOUCH", "FAR", "NONE"]
    assert learned.after > learned.before
    for rule in learned.rules:  # the likelihood's maximum: counts agree but for the penalty
        assert rule.gold - rule.after == pytest.approx(0.4 * rule.weight, abs=1e-3)
    soft = tagger & learned.grammar
    for sentence in data[:4]:
        lattice = soft.lattice(sentence)
        one = fstcrf.Corpus.from_sentences([sentence])
        wanted, _ = enumerated(tagger, one, list(learned.weights.values()))
        assert lattice.log_partition() == pytest.approx(wanted, rel=1e-10)


def test_threads_give_the_same_bits(tagger: CRF) -> None:
    data = corpus(60, 5)
    runs = [Run(threads=n) for n in (1, 2)]
    one, two = (learn_rules(tagger, data, RULES, on_missing="skip", run=run) for run in runs)
    assert one == two


def test_a_tagger_under_a_grammar(tagger: CRF) -> None:
    """A hard grammar that the tagger stands under counts as one of the file's."""
    short = "".join(f"{line}\n" for line in RULES.splitlines() if "FEW" not in line)
    under = tagger & fstcrf.constraints.at_most(2, "NP")
    data = corpus(25, 2)
    wanted = learn_rules(tagger, data, RULES, on_missing="skip")
    found = learn_rules(under, data, short, on_missing="skip")
    assert found.rules == wanted.rules
    assert found.skipped == wanted.skipped
