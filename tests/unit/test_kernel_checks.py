"""What the kernel refuses, and with which words: graphs and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import KernelError, NumericError, OptionError, ShapeError
from fstcrf.kernel import Graph, native
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.native import array_in, ffi, lib

STATES, TOKENS = 3, 5
SOURCE = np.asarray([0, 0, 1, 2], dtype=np.int32)
TARGET = np.asarray([0, 2, 1, 0], dtype=np.int32)
OFFSETS = np.asarray([0, 2, 5])


def graph(**changes: Any) -> Graph:
    fields: dict[str, Any] = {
        "initial": np.zeros(STATES),
        "final": np.zeros(STATES),
        "score": np.zeros(STATES * STATES),
    }
    return Graph(**{**fields, **changes})


def sparse(**changes: Any) -> Graph:
    return graph(**{"score": np.zeros(4), "source": SOURCE, "target": TARGET, **changes})


def strided(*shape: int) -> Floats:
    return np.zeros((*shape[:-1], 2 * shape[-1]))[..., ::2]


NODE = np.zeros((TOKENS, STATES))
CALLS: list[Callable[[Graph, Longs, Floats], object]] = [
    kernel.log_partition,
    kernel.forward_backward,
    kernel.viterbi,
]
every_call = pytest.mark.parametrize("call", CALLS, ids=lambda f: f.__name__)


# --- Graphs ------------------------------------------------------------------------------------


def test_first_tokens_of_a_moving_graph_are_not_read() -> None:
    score = np.zeros((TOKENS, 9))
    score[0] = np.nan
    found = kernel.forward_backward(graph(score=score), np.asarray([0, TOKENS]), NODE)
    assert np.isfinite(found.node).all()
    score[3, 4] = np.inf
    with pytest.raises(NumericError, match=r"entry 31"):
        graph(score=score)


def test_never_is_no_error() -> None:
    never = np.full(STATES, -np.inf)
    found = kernel.forward_backward(graph(initial=never), OFFSETS, NODE)
    assert np.isneginf(found.log_z).all()


# --- Batches -----------------------------------------------------------------------------------


@every_call
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("token", "state"), [(0, 0), (3, 1), (4, 2)])
def test_numbers_of_a_batch(
    call: Callable[..., object], bad: float, token: int, state: int
) -> None:
    node = NODE.copy()
    node[token, state] = bad
    with pytest.raises(NumericError, match=f"token {token}, state {state}"):
        call(graph(), OFFSETS, node)


@every_call
def test_numbers_that_could_add_up_to_infinity(variant: str, call: Callable[..., Any]) -> None:
    node = np.full((1000, STATES), 1e300)
    found = call(graph(score=np.full(9, 1e300)), np.asarray([0, 1000]), node)
    parts = found if isinstance(found, tuple) else (found,)
    assert all(np.isfinite(part).all() for part in parts)
    node[7, 1] = 1.1e300
    with pytest.raises(NumericError, match="beyond 1e300: the potential of token 7, state 1"):
        call(graph(), np.asarray([0, 1000]), node)


@every_call
def test_the_place_of_a_nan_in_a_large_batch(call: Callable[..., object]) -> None:
    node = np.zeros((1000, STATES))
    node[900, 2] = np.nan
    node[950, 0] = np.nan
    with pytest.raises(NumericError, match="token 900, state 2"):
        call(graph(), np.asarray([0, 1000]), node)


@every_call
def test_moving_graphs_have_a_row_for_each_token(call: Callable[..., object]) -> None:
    with pytest.raises(ShapeError, match="arc potentials of 4 tokens for 5 tokens"):
        call(graph(score=np.zeros((TOKENS - 1, 9))), OFFSETS, NODE)


@every_call
def test_no_sentence_at_all(variant: str, call: Callable[..., Any]) -> None:
    for one in (graph(), sparse(), graph(score=np.zeros((0, 9)))):
        found = call(one, np.asarray([0]), np.zeros((0, STATES)))
        parts = found if isinstance(found, tuple) else (found,)
        assert not any(part.any() for part in parts)


@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        (np.ones(3), ShapeError, "weight is \\[3\\], expected \\[2\\]"),
        (np.ones(2, dtype=np.float32), ShapeError, "weight is float32"),
        (strided(2), ShapeError, "weight is not contiguous"),
        (np.asarray([1.0, np.nan]), NumericError, "weight of sentence 1"),
        (np.asarray([-np.inf, 1.0]), NumericError, "weight of sentence 0"),
    ],
)
def test_weights(weight: NDArray[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        kernel.forward_backward(graph(), OFFSETS, NODE, weight=weight)


@pytest.mark.parametrize("call", [kernel.log_partition, kernel.forward_backward])
def test_domains_have_names(call: Callable[..., object]) -> None:
    with pytest.raises(OptionError, match="domain is 'tropical', expected"):
        call(graph(), OFFSETS, NODE, domain="tropical")


# --- The gate ----------------------------------------------------------------------------------


def test_what_is_written_to_must_be_writable() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    native.array_in(array, np.float64, (3,), "x")
    with pytest.raises(ShapeError, match="x is read-only"):
        native.array_in(array, np.float64, (3,), "x", writable=True)


def test_pointers_keep_their_array() -> None:
    pointer = native.array_in(np.arange(1000.0), np.float64, (1000,), "x")
    assert pointer[999] == 999.0


@pytest.mark.parametrize("status", ["FC_EINVAL", "FC_ETARGET"])
def test_what_python_should_have_prevented(status: str) -> None:
    with pytest.raises(KernelError, match="here \\(at 3\\): "):
        native.check(getattr(native.lib, status), "here", 3)


def test_every_status_has_a_text() -> None:
    texts = [native.ffi.string(native.lib.fc_text(code)).decode() for code in range(100)]
    known = texts.index("unknown status")
    assert known > native.lib.FC_ETARGET
    assert len(set(texts[:known])) == known
    assert set(texts[known:]) == {"unknown status"}


@pytest.mark.parametrize("name", ["v5", "", "BASE"])
def test_variants_have_names(name: str) -> None:
    before = kernel.variant()
    with pytest.raises(OptionError, match="this machine has base"):
        kernel.use(name)
    assert kernel.variant() == before


def test_the_variant_in_use_is_one_of_those_there_are(variant: str) -> None:
    assert kernel.variant() == variant
    assert kernel.variants()[0] == "base"
    assert variant in kernel.variants()
    assert kernel.variant() == variant
    assert kernel.use("auto") == kernel.variants()[-1]


def test_c_checks_for_itself() -> None:
    """What Python never passes on: C says no as well."""
    lib, ffi = native.lib, native.ffi
    where = ffi.new("int64_t *")
    zeros = ffi.new("double[9]")
    axis = {"S": 3, "contexts": 1, "score": zeros}
    shape = {"axes": 1, "outer": 1, "initial": zeros, "final": zeros}

    def machine(**changes: int) -> Any:
        kept.append(ffi.new("fc_axis *", {**axis, **changes}))
        fields = {**shape, "S": changes.get("S", 3), "axis": kept[-1]}
        return ffi.new("fc_machine *", fields)

    kept: list[Any] = []
    good = machine()
    assert lib.fc_check_machine(good, where) == lib.FC_OK
    for change in ({"S": 0}, {"S": -1}, {"S": 2**40}, {"A": -1}, {"S": 40_000}):
        assert lib.fc_check_machine(machine(**change), where) == lib.FC_EINVAL
    assert lib.fc_check_machine(ffi.NULL, where) == lib.FC_EINVAL
    assert lib.fc_use(ffi.NULL) == lib.FC_EINVAL
    falling = ffi.new("int64_t[3]", [0, 2, 1])
    batch = ffi.new("fc_batch *", {"B": 2, "offsets": falling})
    inputs, unused = (good, 2, falling), ffi.NULL
    three = unused, unused, unused
    paths = ffi.new("int32_t[9]")
    calls = [
        lib.fc_machine_log_partition(*inputs, lib.FC_AUTO, unused, unused, where),
        lib.fc_machine_marginals(*inputs, lib.FC_AUTO, *three, *three, unused, where),
        lib.fc_machine_best(*inputs, paths, unused, unused),
        lib.fc_machine_max_marginals(*inputs, *three, *three),
        lib.fc_online(good, batch, unused, 0, *three, 0, 1.0, 0, *three, *three, where),
    ]
    assert calls == [lib.FC_EINVAL] * 5
    assert where[0] == 1


@pytest.mark.parametrize("row", [[0, 2**40, 2], [0, 3, 2], [0, -1, 2]])
def test_rows_of_arcs_that_lead_beyond_them(row: list[int]) -> None:
    """Nothing is read behind the arcs on the way to finding that a row does not rise."""
    arrays = {
        "row": np.asarray(row),
        "source": np.zeros(2, dtype=np.int32),  # one behind them would be another arc of state 0
        "target": np.arange(2, dtype=np.int32),
        "score": np.zeros(2),
    }
    fields = {name: array_in(a, a.dtype.type, a.shape, name) for name, a in arrays.items()}
    axis = ffi.new("fc_axis *", {"S": 2, "A": 2, "contexts": 1, **fields})
    ends = array_in(np.zeros(2), np.float64, (2,), "ends")
    given = {"axes": 1, "outer": 1, "S": 2, "axis": axis, "initial": ends, "final": ends}
    machine, where = ffi.new("fc_machine *", given), ffi.new("int64_t *")
    assert lib.fc_check_machine(machine, where) == lib.FC_EINVAL
    arrays["row"][:] = [0, 2, 2]
    assert lib.fc_check_machine(machine, where) == lib.FC_OK


@pytest.mark.parametrize("row", [[0, 1, 3], [0, 2**40, 2], [0, 1, -1], [0, 1, 2**62]])
def test_rows_of_acyclic_machines_that_lead_beyond_them(row: list[int]) -> None:
    """No target is read behind the arcs on the way to finding that there are fewer."""
    with pytest.raises(ShapeError, match="rows"):
        Acyclic(np.asarray(row), np.ones(2, dtype=np.int32), np.zeros(2), np.zeros(2))
