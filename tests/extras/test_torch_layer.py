"""The layer of PyTorch: beside pytorch-crf, beside brute force, its gradients by differences."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import safetensors.torch as safetensors
import torch
from torch import Tensor
from torchcrf import CRF

from fstcrf import Lattices, TokenDecoder, decode
from fstcrf.constraints import at_most, bio, bioes, neighbours, pairs
from fstcrf.errors import (
    FstcrfError,
    LabelError,
    LabelWarning,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.torch import CRFLayer
from fstcrf.text.corpus import spans as spans_of
from tests.laws.doors import DOORS
from tests.laws.test_doors import cells, check
from tests.laws.test_illegal_gold import CASES, FREE
from tests.laws.test_label_arguments import FORMS, REFUSED
from tests.laws.test_label_arguments import LABELS as LABEL_SET

LABELS = ("O", "B-X", "I-X", "E-X", "S-X")
LENGTHS = [4, 1, 3, 0]


def drawn(*shape: int, seed: int = 0, dtype: Any = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def layer_of(labels: Any = LABELS, grammar: Any = None, couplings: Any = (), **options: Any) -> Any:
    """A layer in float64 with random parameters."""
    layer = CRFLayer(labels, grammar, couplings, **options).double()
    with torch.no_grad():
        for k, (_, parameter) in enumerate(sorted(layer.named_parameters())):
            parameter.copy_(drawn(*parameter.shape, seed=k + 10))
    return layer


def checked(layer: Any, emissions: Any, tags: Any, lengths: Any) -> bool:
    """Gradients for emissions and parameters against differences."""
    names = [name for name, _ in layer.named_parameters()]
    values = [p.detach().clone().requires_grad_() for _, p in layer.named_parameters()]
    heads = list(emissions) if isinstance(emissions, dict) else None
    inputs = list(emissions.values()) if heads else [emissions]

    def loss(*given: Tensor) -> Tensor:
        own, rest = given[: len(inputs)], given[len(inputs) :]
        scores: Any = dict(zip(heads, own, strict=True)) if heads else own[0]
        state = dict(zip(names, rest, strict=True))
        found: Tensor = torch.func.functional_call(layer, state, (scores, tags, lengths))
        return found

    parts = (*(x.clone().requires_grad_() for x in inputs), *values)
    return bool(torch.autograd.gradcheck(loss, parts, atol=1e-6))


@pytest.mark.parametrize("shape", [(6, 9, 22), (40, 7, 9)])
def test_loss_and_gradients_are_those_of_pytorch_crf(shape: tuple[int, int, int]) -> None:
    size = shape[2]
    peer = CRF(size, batch_first=True).double()
    layer = CRFLayer([f"L{i}" for i in range(size)]).double()
    with torch.no_grad():
        layer.transitions.copy_(peer.transitions)
        layer.initial.copy_(peer.start_transitions)
        layer.final.copy_(peer.end_transitions)
    lengths = torch.arange(shape[0]) % shape[1] + 1
    mask = torch.arange(shape[1]) < lengths[:, None]
    tags = torch.randint(0, size, shape[:2], generator=torch.Generator().manual_seed(1))
    one, two = (drawn(*shape).requires_grad_() for _ in range(2))
    theirs = -peer(one, tags, mask=mask, reduction="sum")
    ours = layer(two, tags, lengths)
    theirs.backward()
    (2 * ours).backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    pairs_ = [(two, one), (layer.transitions, peer.transitions)]
    pairs_ += [(layer.initial, peer.start_transitions), (layer.final, peer.end_transitions)]
    for mine, other in pairs_:
        torch.testing.assert_close(mine.grad, 2 * other.grad, rtol=1e-9, atol=1e-10)
    best = layer.decode(two, mask=mask)
    assert [row[row >= 0].tolist() for row in best.ids] == peer.decode(one, mask=mask)


@pytest.mark.parametrize("grammar", [None, bioes(), at_most(1, "X") & bioes()])
def test_gradients_at_ragged_lengths(grammar: Any) -> None:
    tags = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 0]])
    assert checked(layer_of(grammar=grammar), drawn(4, 4, 5), tags, LENGTHS)


def test_gradients_of_partial_labels() -> None:
    tags = torch.tensor([[1, -1, 3, -1], [-1, 0, 0, 0], [-100, 4, -1, 0], [0, 0, 0, 0]])
    assert checked(layer_of(grammar=bioes()), drawn(4, 4, 5), tags, LENGTHS)
    allowed = torch.ones(4, 4, 5, dtype=torch.bool)
    allowed[0, 1, 2:] = False
    assert checked(layer_of(), drawn(4, 4, 5), allowed, LENGTHS)


def test_gradients_of_several_heads() -> None:
    labels = {"pos": ("N", "V", "D"), "chunk": ("O", "B-X")}
    grammar = pairs({"V": ["O"]}, ("pos", "chunk"))
    layer = layer_of(labels, grammar, [("chunk", "pos")])
    emissions = {"pos": drawn(4, 4, 3), "chunk": drawn(4, 4, 2, seed=1)}
    tags = {"pos": torch.tensor([[0, 1, 2, 0]] * 4), "chunk": torch.tensor([[1, 0, 1, 0]] * 4)}
    assert checked(layer, emissions, tags, LENGTHS)
    some = {**tags, "chunk": torch.full((4, 4), -1)}
    assert checked(layer, emissions, some, LENGTHS)
    marginals = layer.marginals(emissions, LENGTHS)
    torch.testing.assert_close(marginals["pos"][0].sum(-1), torch.ones(4).double())
    answer = layer.decode(emissions, LENGTHS)
    assert answer["chunk"].ids.shape == (4, 4)
    assert all(
        c == "O"
        for pos, chunk in zip(answer["pos"].labels(), answer["chunk"].labels(), strict=True)
        for p, c in zip(pos, chunk, strict=True)
        if p == "V"
    )


def test_marginals_are_those_of_the_batch() -> None:
    layer = layer_of(grammar=bioes())
    scores = drawn(4, 4, 5)
    ends = (layer.transitions, layer.initial, layer.final)
    batch = Lattices.from_arrays(LABELS, scores, *ends, lengths=LENGTHS) & bioes()
    for mine, its in zip(layer.marginals(scores, LENGTHS).numpy(), batch.marginals(), strict=True):
        np.testing.assert_allclose(mine[: len(its)], its)


def test_what_float32_cannot_hold() -> None:
    layer = layer_of(LABELS)
    scores = (drawn(2, 30, 5) * 2000).float().double()
    best = torch.from_numpy(layer.decode(scores).ids.copy())
    tags = (best + 1) % 5
    own = scores.clone().requires_grad_()
    exact = layer(own, tags)
    exact.backward()
    one = scores.float().requires_grad_()
    loss = layer(one, tags)
    loss.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)
    torch.testing.assert_close(one.grad.double(), own.grad, atol=1e-4, rtol=0)


def test_dead_sentences() -> None:
    scores = drawn(3, 4, 5)
    scores[1, 2] = -torch.inf
    tags = torch.zeros(3, 4, dtype=torch.long)
    layer = layer_of()
    with pytest.raises(NoPathError, match=r"^sentence 1: every label sequence is forbidden$"):
        layer(scores, tags)
    legal = layer_of(grammar=bioes())
    tags[2] = torch.tensor([2, 2, 2, 2])
    says = r"^sentence 2, token 0: the gold label 'I-X' at the start breaks bioes\(\)$"
    with pytest.raises(NoPathError, match=says):
        legal(scores[[0, 0, 2]], tags)
    skipping = layer_of(grammar=bioes(), on_no_path="skip")
    own = scores.clone().requires_grad_()
    loss = skipping(own, tags)
    loss.backward()
    assert (own.grad[1:] == 0).all()
    gradients = [p.grad.clone() for p in skipping.parameters()]
    skipping.zero_grad()
    alone = skipping(scores[:1], tags[:1])
    alone.backward()
    assert loss.item() == pytest.approx(alone.item())
    for found, parameter in zip(gradients, skipping.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad)
    assert layer.decode(scores).dead.tolist() == [False, True, False]


def test_it_is_differentiated_once() -> None:
    layer, scores = layer_of(), drawn(2, 3, 5).requires_grad_()
    loss = layer(scores, torch.zeros(2, 3, dtype=torch.long))
    (first,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(OptionError, match="differentiated once"):
        first.sum().backward()


def test_it_is_a_module() -> None:
    layer = layer_of(grammar=bioes())
    other = CRFLayer(LABELS, bioes()).double()
    other.load_state_dict(layer.state_dict())
    scores, tags = drawn(2, 3, 5), torch.tensor([[0, 4, 0], [1, 2, 3]])
    assert other(scores, tags).item() == layer(scores, tags).item()
    fixed = CRFLayer(LABELS, transitions=np.ones((5, 5)), learned=False)
    assert list(fixed.parameters()) == []
    assert set(fixed.state_dict()) == {"transitions", "initial", "final", "_extra_state"}
    assert "5 label labels" in repr(layer)


# --- What a layer decodes -------------------------------------------------------------------------

GRAMMARS = [None, bioes(), bioes() & at_most(1, "X")]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
def test_a_layer_decodes_as_decode_does(grammar: Any, dtype: Any) -> None:
    layer, scores = layer_of(grammar=grammar).to(dtype), drawn(4, 4, 5, dtype=dtype)
    chain = {name: values.detach() for name, values in layer.named_parameters()}
    want = decode(scores, LENGTHS, labels=LABELS, grammar=grammar, **chain)
    found = layer.decode(scores, LENGTHS)
    np.testing.assert_array_equal(found.ids, want.ids)
    np.testing.assert_allclose(found.probabilities, want.probabilities, atol=1e-6)
    for ask in ("marginals", "span_probabilities"):
        for mine, its in zip(getattr(found, ask)(), getattr(want, ask)(), strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-6)
    for sentence in range(4):
        mine, its = found.confidence(sentence), want.confidence(sentence)
        assert mine is not None
        assert its is not None
        assert mine.probability.low == pytest.approx(its.probability.low, abs=1e-6)
        assert mine.legal.low == pytest.approx(its.legal.low, abs=1e-6)


def test_heads_decode_with_the_probabilities_of_all_their_paths() -> None:
    heads = {"pos": ("N", "V"), "chunk": ("O", "B-X", "I-X")}
    grammar = pairs({"V": ["O", "B-X"]}, ("pos", "chunk")) & bio(tape="chunk")
    layer = layer_of(heads, grammar, [("chunk", "pos")])
    scores = {"pos": drawn(3, 4, 2), "chunk": drawn(3, 4, 3, seed=1)}
    scores["pos"][1, 0] = -torch.inf
    answer, marginals = layer.decode(scores, [4, 4, 2]), layer.marginals(scores, [4, 4, 2])
    assert answer.dead.tolist() == [False, True, False]
    for tape in heads:
        for size, mine, its in zip([4, 4, 2], answer.marginals(tape), marginals[tape], strict=True):
            np.testing.assert_allclose(mine, its[:size], atol=1e-9)
    for b in (0, 2):
        paths = answer.posterior.lattices["chunk"][b].nbest(10_000)
        assert answer.confidence(b).probability.low == pytest.approx(paths[0].probability)
        assert answer.probabilities[b] == pytest.approx(paths[0].probability)
        read = [(set(spans_of(path["chunk"], "iob2")), path.probability) for path in paths]
        for span, p in zip(
            answer["chunk"].spans()[b], answer.span_probabilities("chunk")[b], strict=True
        ):
            assert p == pytest.approx(sum(share for spans, share in read if span in spans))


def test_answers_stay_when_parameters_move() -> None:
    layer, scores = layer_of(grammar=bioes()), drawn(2, 4, 5)
    answer, want = layer.decode(scores), layer.decode(scores).marginals()
    with torch.no_grad():
        layer.transitions += 5.0 * drawn(5, 5, seed=9)
    np.testing.assert_array_equal(answer.marginals(), want)


# --- Labels, gold labels, state -------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_every_form(form: str) -> None:
    given = FORMS[form]
    assert CRFLayer(given).labels == LABEL_SET
    assert CRFLayer({"a": given, "b": given}).labels == {"a": LABEL_SET, "b": LABEL_SET}


@pytest.mark.parametrize("form", REFUSED)
def test_labels_that_are_refused(form: str) -> None:
    given, says = REFUSED[form]
    with pytest.raises(FstcrfError, match=says):
        CRFLayer(given)


def test_padding_that_is_taken_for_tokens_is_warned_of() -> None:
    layer, scores = layer_of(), drawn(2, 3, 5)
    tags = torch.tensor([[0, 4, 0], [0, 0, -100]])
    with pytest.warns(LabelWarning, match="label -100.*mask=attention_mask") as caught:
        loose = layer(scores, tags)
    assert caught[0].filename == __file__
    lengths, mask = [3, 2], torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert layer(scores, tags, lengths).item() == layer(scores, tags, mask=mask).item()
    assert layer(scores, tags, lengths).item() != pytest.approx(loose.item())
    for fine in ([[0, 4, 0], [0, 0, -1]], [[0, 4, 0], [-100, 0, 0]]):
        layer(scores, torch.tensor(fine))
    layer(scores, torch.ones(2, 3, 5, dtype=torch.bool))
    two = {"a": LABELS, "b": LABELS}
    with pytest.warns(LabelWarning, match="ends with the label -100"):
        layer_of(two)(dict.fromkeys(two, scores), {"a": tags.abs() % 5, "b": tags})


@pytest.mark.parametrize("case", CASES)
def test_illegal_gold_names_token_labels_and_rule(case: str) -> None:
    """See `tests/laws/test_illegal_gold.py`."""
    heads, grammar, tags, says = CASES[case]
    several = len(heads) > 1
    layer = CRFLayer(heads if several else next(iter(heads.values())), grammar)
    size = len(next(iter(tags.values())))
    scores = {tape: torch.zeros(2, size, len(labels)) for tape, labels in heads.items()}
    gold = {tape: torch.tensor([FREE[case][tape], row]) for tape, row in tags.items()}
    given = (scores, gold) if several else [next(iter(one.values())) for one in (scores, gold)]
    with pytest.raises(NoPathError, match=rf"^sentence 1, {says}$"):
        layer(*given)


OTHERS: dict[str, tuple[Any, str]] = {
    "another label": (
        ("O", "B-Y", "I-X", "E-X", "S-X"),
        "label 1 of label is 'B-X' there, and 'B-Y'",
    ),
    "another order": (
        ("B-X", "O", "I-X", "E-X", "S-X"),
        "label 0 of label is 'O' there, and 'B-X'",
    ),
    "fewer": (LABELS[:4], "has 5 labels of label, and this layer 4; only one of them has S-X"),
    "heads": ({"x": LABELS, "y": LABELS}, "a layer with the heads 'label', not 'x', 'y'"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("within", [False, True])
def test_a_state_of_other_labels_is_refused(other: str, within: bool, tmp_path: Any) -> None:
    labels, says = OTHERS[other]
    layer, odd = layer_of(), layer_of(labels)
    before = copy.deepcopy(odd.state_dict())
    one, two = (torch.nn.ModuleDict({"crf": x}) if within else x for x in (layer, odd))
    torch.save(one.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    for strict in (True, False):
        with pytest.raises(LabelError, match=says):
            two.load_state_dict(state, strict=strict)
    assert all(torch.equal(before[name], now) for name, now in odd.state_dict().items())


def test_states_of_the_same_labels_are_read(tmp_path: Any) -> None:
    layer, other = layer_of(), CRFLayer(LABELS).double()
    safetensors.save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    other.load_state_dict(safetensors.load_file(tmp_path / "layer.safetensors"))
    torch.testing.assert_close(other.transitions, layer.transitions)
    plain = {name: 2 * values.detach() for name, values in layer.named_parameters()}
    other.load_state_dict(plain)  # without labels: only its shapes can be compared
    torch.testing.assert_close(other.transitions, 2 * layer.transitions)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({"transitions": plain["transitions"]})


@pytest.mark.filterwarnings("ignore")  # those of torch.compile
def test_a_compiled_network_has_the_same_loss() -> None:
    layer = layer_of()
    network = torch.nn.Linear(3, 5).double()

    def loss(x: Tensor, tags: Tensor) -> Tensor:
        found: Tensor = layer(network(x), tags) / 2
        return found

    x, tags = drawn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    compiled = torch.compile(loss, backend="eager")
    assert compiled(x, tags).item() == pytest.approx(loss(x, tags).item())
    compiled(x, tags).backward()
    assert network.weight.grad is not None


def test_no_thread_changes_a_bit() -> None:
    scores = drawn(300, 12, 5, dtype=torch.float32)
    tags = torch.randint(0, 5, (300, 12))
    found = []
    for threads in (1, 2):
        layer = CRFLayer(LABELS, threads=threads)
        own = scores.clone().requires_grad_()
        layer(own, tags).backward()
        found.append((own.grad, layer.transitions.grad))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


# --- Tensors come in as they are ------------------------------------------------------------------


def test_tensors_are_read_where_they_lie() -> None:
    plain = drawn(3, 4, 5, dtype=torch.float32)
    want = decode(plain.numpy(), labels=LABELS, grammar=bioes())
    for given in (
        plain.clone().requires_grad_(),
        plain.transpose(0, 1).contiguous().transpose(0, 1),
        list(plain),
        plain.double(),
    ):
        found = decode(given, labels=LABELS, grammar=bioes())
        np.testing.assert_array_equal(found.ids, want.ids)
    half = plain.bfloat16()
    exact = decode(half.float(), labels=LABELS).ids
    np.testing.assert_array_equal(decode(half, labels=LABELS).ids, exact)
    mask = torch.arange(4) < torch.tensor([4, 2, 0])[:, None]
    found = decode(plain, mask=mask, labels=LABELS)
    np.testing.assert_array_equal(found.ids, decode(plain, [4, 2, 0], labels=LABELS).ids)


def test_other_devices_are_refused() -> None:
    with pytest.raises(OptionError, match="scores is on meta: first move it to the CPU"):
        decode(torch.empty(1, 2, 5, device="meta"), labels=LABELS)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"tags": torch.full((2, 3), 5)}, LabelError, "sentence 0, token 0: label id 5"),
        ({"tags": torch.zeros(2, 4, dtype=torch.long)}, ShapeError, r"tags are \[2, 4\]"),
        ({"lengths": [3, 4]}, ShapeError, "sentence 1: its length is 4"),
        ({"emissions": torch.full((2, 3, 5), torch.nan)}, NumericError, "sentence 0, token 0"),
        ({"emissions": torch.zeros(2, 3, 4)}, ShapeError, "5 labels"),
        ({"emissions": [torch.zeros(3, 5)]}, OptionError, r"emissions are list, expected a torch"),
        ({"emissions": np.zeros((2, 3, 5))}, OptionError, r"emissions are ndarray, expected a"),
        ({"lengths": [3.0, np.inf]}, ShapeError, "lengths are float64, expected whole numbers"),
        ({"mask": torch.zeros(2, 3) - 1e4}, ShapeError, r"mask holds -10000.0, expected true and"),
        ({"mask": torch.full((2, 3), torch.nan)}, ShapeError, "mask holds nan"),
        ({"mask": np.full((2, 3), "a")}, ShapeError, "mask holds 'a'"),
        ({"mask": [[None] * 3] * 2}, ShapeError, "mask holds None"),
    ],
)
def test_what_does_not_fit(change: dict[str, Any], error: type[Exception], says: str) -> None:
    given: dict[str, Any] = {
        "emissions": drawn(2, 3, 5),
        "tags": torch.zeros(2, 3, dtype=torch.long),
        "lengths": None,
    }
    with pytest.raises(error, match=says):
        layer_of()(**{**given, **change})


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        (LABELS, {"grammar": "bioes"}, "grammar is str, expected a Grammar"),
        (LABELS, {"threads": "2"}, "threads is '2', expected a whole number"),
        (LABELS, {"threads": 1.5}, "threads is 1.5, expected a whole number"),
        (LABELS, {"transitions": {"tag": np.zeros((5, 5))}}, "transitions: there is no head 'tag'"),
        ({"a": LABELS, "b": LABELS}, {"initial": {"c": np.zeros(5)}}, "initial: there is no head"),
        ({"a.b": LABELS}, {}, "heads a.b: 'transitions_a.b' cannot be the name"),
        (
            dict.fromkeys(["a", "b_c", "a_b", "c"], ("O", "X")),
            {"couplings": [("a", "b_c"), ("a_b", "c")]},
            "'coupling_a_b_c' cannot be the name of one parameter",
        ),
    ],
)
def test_what_no_layer_is_made_of(labels: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        CRFLayer(labels, **options)


def test_nothing_imports_torch_unasked() -> None:
    code = "import fstcrf, fstcrf.lattices.emissions.batch, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Half precision, tracing, copies --------------------------------------------------------------

TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads", [False, True])
def test_losses_are_in_float32_at_least(dtype: Any, heads: bool) -> None:
    """The loss of many tokens does not fit half precision; gradients are in the inputs' type."""
    labels: Any = {"x": LABELS, "y": ("A", "B")} if heads else LABELS
    layer = layer_of(labels)
    parts = [(5 * drawn(64, 300, 5)).to(dtype), (5 * drawn(64, 300, 2, seed=1)).to(dtype)]
    tags = torch.zeros(64, 300, dtype=torch.long)

    def asked(kind: Any) -> tuple[Tensor, list[Tensor]]:
        own = [part.to(kind).requires_grad_() for part in parts[: 1 + heads]]
        several = dict(zip(("x", "y"), own, strict=False))
        gold: Any = {"x": tags, "y": tags} if heads else tags
        loss = layer(several if heads else own[0], gold)
        (1024 * loss).backward()
        return loss, [one.grad for one in own if one.grad is not None]

    wanted, exact = asked(torch.float64)
    found, gradients = asked(dtype)
    assert wanted.item() > torch.finfo(torch.float16).max
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    for mine, other in zip(gradients, exact, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine, other.to(dtype), rtol=0.01, atol=1e-2)


def test_scales_of_losses_beyond_half_precision() -> None:
    """A scale of 2¹⁷ overflows float16, gradients of it times small probabilities do not."""
    own = torch.tensor([[[12.0, 0.0, 0.0]]], dtype=torch.float16, requires_grad=True)
    loss = CRFLayer(["A", "B", "C"])(own, torch.zeros(1, 1, dtype=torch.long))
    (2.0**17 * loss).backward()
    wide = own.detach().double().requires_grad_()
    (2.0**17 * CRFLayer(["A", "B", "C"])(wide, torch.zeros(1, 1, dtype=torch.long))).backward()
    assert own.grad is not None
    assert wide.grad is not None
    torch.testing.assert_close(own.grad, wide.grad.half())
    assert own.grad.isfinite().all()


def test_autocast() -> None:
    layer, encoder = layer_of().float(), torch.nn.Linear(8, 5)
    x, tags = drawn(32, 50, 8, dtype=torch.float32), torch.zeros(32, 50, dtype=torch.long)
    wanted = layer(encoder(x), tags)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = encoder(x)
        found = layer(scores, tags)
    assert scores.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(wanted.item(), rel=0.01)
    found.backward()
    assert encoder.weight.grad.isfinite().all()


def test_heads_of_several_types_and_whole_numbers() -> None:
    layer = layer_of({"x": LABELS, "y": ("A", "B")})
    tags = {name: torch.zeros(2, 3, dtype=torch.long) for name in "xy"}
    one, other = drawn(2, 3, 5), drawn(2, 3, 2, seed=1)
    assert layer({"x": one.half(), "y": other}, tags).dtype == torch.float64
    assert layer({"x": one.half(), "y": other.bfloat16()}, tags).dtype == torch.float32
    whole = torch.ones(2, 3, 5, dtype=torch.long)
    loss = layer_of()(whole, tags["x"])
    assert loss.item() == pytest.approx(layer_of()(whole.double(), tags["x"]).item())


def test_probabilities_are_in_float32_at_least() -> None:
    scores, layer = drawn(3, 4, 5), layer_of()
    for dtype in TYPES:
        found = layer.marginals(scores.to(dtype))
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(found.sum(-1), torch.ones_like(found.sum(-1)))


class Network(torch.nn.Module):
    """An encoder with a layer on top, asked in one of its ways."""

    def __init__(self, ask: str = "loss") -> None:
        super().__init__()
        self.encoder, self.ask = torch.nn.Linear(8, 5), ask
        self.crf = CRFLayer(LABELS, at_most(1, "X") & bioes())

    def forward(self, x: Tensor, tags: Tensor) -> Any:
        scores = self.encoder(x)
        if self.ask == "loss":
            return self.crf(scores, tags)
        return self.crf.decode(scores).scores if self.ask == "best" else self.crf.marginals(scores)


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("ask", ["loss", "best", "marginals"])
def test_traces_are_refused(ask: str) -> None:
    x, tags = drawn(2, 3, 8, dtype=torch.float32), torch.zeros(2, 3, dtype=torch.long)
    network = Network(ask)
    with pytest.raises(OptionError, match="cannot be traced or exported"):
        torch.jit.trace(network, (x, tags))
    encoder = torch.jit.trace(network.encoder, x)
    torch.testing.assert_close(network.crf(encoder(x), tags), network.crf(network.encoder(x), tags))
    with pytest.raises(OptionError, match="cannot be traced or exported"):
        torch.export.export(network, (x, tags))


def test_copies(tmp_path: Any) -> None:
    """Layers under a grammar are copied, pickled, saved whole; losses and answers stay the same."""
    network = Network()
    with torch.no_grad():
        network.crf.transitions.copy_(drawn(5, 5))
    x, tags = drawn(2, 3, 8, dtype=torch.float32), torch.zeros(2, 3, dtype=torch.long)
    torch.save(network, tmp_path / "network.pt")
    copies = [
        copy.deepcopy(network),
        pickle.loads(pickle.dumps(network)),
        torch.load(tmp_path / "network.pt", weights_only=False),
    ]
    wanted = network.crf.decode(network.encoder(x))
    for again in copies:
        assert again(x, tags).item() == network(x, tags).item()
        assert repr(again.crf) == repr(network.crf)
        found = pickle.loads(pickle.dumps(again.crf.decode(again.encoder(x))))
        assert found.labels() == wanted.labels()
        np.testing.assert_array_equal(found.probabilities, wanted.probabilities)
        again(x, tags).backward()
        assert again.crf.transitions.grad is not None


class Documents(torch.utils.data.Dataset[Any]):
    """Spans that a decoder under a grammar finds, whatever process asks."""

    def __init__(self) -> None:
        self.decoder = TokenDecoder(["O", "B-X", "I-X"], "bio", grammar=at_most(1, "X"))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, k: int) -> list[tuple[int, int]]:
        logits = drawn(4, 3, seed=k).numpy()
        spans = self.decoder.decode(logits, [(0, 1), (1, 2), (2, 3), (3, 4)])
        return [span[:2] for span in spans]


def loss_of(network: Network) -> float:
    return float(network(torch.ones(2, 3, 8), torch.zeros(2, 3, dtype=torch.long)).detach())


def test_processes_that_are_spawned() -> None:
    documents = Documents()
    loader = torch.utils.data.DataLoader(
        documents, num_workers=1, multiprocessing_context="spawn", collate_fn=list, batch_size=2
    )
    assert [spans for batch in loader for spans in batch] == [documents[k] for k in range(4)]
    network = Network()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(loss_of, [network]) == [pytest.approx(loss_of(network))]


def test_functions_without_a_name_go_with_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    grammar = neighbours(lambda a, b: (a, b) != ("B-X", "O"))
    again = pickle.loads(cloudpickle.dumps(CRFLayer(LABELS, grammar)))
    scores = drawn(2, 3, 5)
    assert again.decode(scores).labels() == CRFLayer(LABELS, grammar).decode(scores).labels()


@pytest.mark.parametrize(("door", "question"), cells(["layer"]))
def test_a_layer_answers_as_all_doors(door: str, question: str) -> None:
    """See `tests/laws`."""
    check(DOORS[door], question)
