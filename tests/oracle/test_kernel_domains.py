"""Linear and log domain where no scale fits all that counts, and the kernel's exponential."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.kernel import Domain, Graph, Posterior
from tests.support.oracles import assert_close, truth

EPSILON = float(np.finfo(np.float64).eps)


def run(graph: Graph, node: Floats, domain: Domain = "auto") -> Posterior:
    return kernel.forward_backward(graph, np.asarray([0, len(node)]), node, domain=domain)


def summed_arcs(graph: Graph, arc: Floats) -> Floats:
    total = arc.sum(axis=0) if graph.per_token else arc
    if graph.source is None or graph.target is None:
        return total.reshape(graph.n_states, graph.n_states)
    full = np.zeros((graph.n_states, graph.n_states))
    full[graph.source, graph.target] = total
    return full


# --- Two states that never meet: no scale fits both --------------------------------------------


def strangers(kind: str, tokens: int) -> Graph:
    if kind == "sparse":
        ends = np.asarray([0, 1], dtype=np.int32)
        return Graph(np.zeros(2), np.zeros(2), np.zeros(2), ends, ends)
    score = np.asarray([0.0, -np.inf, -np.inf, 0.0])
    return Graph(
        np.zeros(2), np.zeros(2), np.tile(score, (tokens, 1)) if kind == "per-token" else score
    )


KINDS = ["dense", "sparse", "per-token"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lead", [20, 40, 250])
def test_states_that_never_meet(variant: str, kind: str, lead: int) -> None:
    # One leads by 25 a token in the first half, the other in the second.
    node = np.zeros((2 * lead, 2))
    node[:lead, 0] = node[lead:, 1] = 25.0
    graph = strangers(kind, len(node))
    fits = 25.0 * lead < 700.0  # e^-700 is a number yet
    domains: tuple[Domain, ...] = ("auto", "log", "linear") if fits else ("auto", "log")
    for domain in domains:
        found = run(graph, node, domain)
        assert_close(found.log_z, [25.0 * lead + np.log(2.0)])
        assert_close(found.node, np.full(node.shape, 0.5))
        arcs = np.zeros((2, 2))
        np.fill_diagonal(arcs, 0.5 * (len(node) - 1))
        assert_close(summed_arcs(graph, found.arc), arcs, scale=len(node))
    if fits:
        return
    with pytest.raises(NumericError, match=r"sentence \(at 0\)"):
        run(graph, node, "linear")
    with pytest.raises(NumericError, match="linear domain"):
        kernel.log_partition(graph, np.asarray([0, len(node)]), node, domain="linear")


@pytest.mark.parametrize("kind", KINDS)
def test_alternating_leads_are_no_trouble(variant: str, kind: str) -> None:
    node = np.zeros((40, 2))
    node[::2, 0] = node[1::2, 1] = 25.0
    for domain in ("auto", "linear", "log"):
        found = run(strangers(kind, 40), node, domain)
        assert_close(found.log_z, [500.0 + np.log(2.0)])
        assert_close(found.node, np.full(node.shape, 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_forward_rows_are_lost(variant: str, kind: str) -> None:
    # Backward, the first state falls behind by 600 and ends 200 ahead; forward, the second by 800.
    node = np.zeros((56, 2))
    node[:32, 0] = node[32:, 1] = 25.0
    graph, offsets = strangers(kind, len(node)), np.asarray([0, len(node)])
    log_z = np.logaddexp(800.0, 600.0)
    assert_close(kernel.log_partition(graph, offsets, node, domain="linear"), [log_z])
    with pytest.raises(NumericError, match="linear domain"):
        run(graph, node, "linear")
    found = run(graph, node)
    assert_close(found.log_z, [log_z])
    assert found.log_z.tobytes() == kernel.log_partition(graph, offsets, node).tobytes()
    share = np.exp([800.0 - log_z, 600.0 - log_z])
    np.testing.assert_allclose(found.node, np.tile(share, (56, 1)), rtol=1e-11)


def test_a_lost_sentence_among_others(variant: str) -> None:
    node = np.zeros((90, 2))
    node[5:45, 0] = node[45:85, 1] = 25.0
    graph, offsets = strangers("dense", 0), np.asarray([0, 5, 85, 90])
    with pytest.raises(NumericError, match=r"at 1"):
        kernel.forward_backward(graph, offsets, node, domain="linear")
    found = kernel.forward_backward(graph, offsets, node)
    assert_close(found.log_z, [np.log(2.0), 1000.0 + np.log(2.0), np.log(2.0)])
    assert_close(found.node, np.full(node.shape, 0.5))
    assert_close(found.arc, [43.5, 0.0, 0.0, 43.5])


def test_ends_that_no_scale_fits(variant: str) -> None:
    for first, last in (([0.0, -800.0], [-800.0, 0.0]), ([0.0, 0.0], [0.0, -800.0])):
        graph = Graph(np.asarray(first), np.asarray(last), np.zeros(4))
        node = np.zeros((3, 2))
        known, found = truth(graph, node), run(graph, node)
        assert_close(found.log_z, [known.log_z])
        assert_close(found.node, known.node)
        assert_close(found.arc, known.arc.sum(axis=0).reshape(-1))
        with pytest.raises(NumericError, match="linear domain"):
            run(graph, node, "linear")


# --- The kernel's own exponential --------------------------------------------------------------


@pytest.mark.parametrize(("domain", "deepest"), [("linear", 322.0), ("log", 707.0)])
def test_exponentials(variant: str, domain: Domain, deepest: float) -> None:
    # One token, two states: the posterior of the second is e^-x / (1 + e^-x).
    depths = np.concatenate(
        [
            np.linspace(0.0, deepest, 20_001),
            np.arange(1, 400) * np.log(2.0) / 2.0,  # ends of the reduced range
            [1e-290, 1e-17, 1e-8, 1.0],  # products of 1e-300 are no longer exact,
        ]
    )
    depths = depths[depths < deepest]
    node = np.stack([np.zeros_like(depths), -depths], axis=1)
    graph = Graph(np.zeros(2), np.zeros(2), np.zeros(4))
    found = kernel.forward_backward(graph, np.arange(len(node) + 1), node, domain=domain)
    small = np.exp(-depths.astype(np.longdouble))
    error = np.abs(found.node[:, 1] / (small / (1 + small)) - 1)
    assert float(error.max()) < 4 * EPSILON


def test_what_underflows_is_zero(variant: str) -> None:
    node = np.asarray([[0.0, -708.5], [0.0, -1e5], [0.0, -1e300]])
    found = kernel.forward_backward(
        Graph(np.zeros(2), np.zeros(2), np.zeros(4)), np.arange(4), node
    )
    assert found.node.tolist() == [[1.0, 0.0]] * 3
    assert found.log_z.tolist() == [0.0] * 3
