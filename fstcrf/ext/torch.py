"""A conditional random field as a layer of a network of PyTorch: extra ``fstcrf[torch]``.

Losses and gradients are computed by the kernel on the CPU, whole batches at once.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, is_by_tape, whole_number
from fstcrf.arrays import Array, Bools, Ints, Longs
from fstcrf.errors import LabelError, LabelWarning, OptionError, ShapeError
from fstcrf.ext.gradients import Heads, LabelLoss, best_labels, label_probabilities, likelihood
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.emissions.reading import (
    LabelNames,
    Scores,
    host_array,
    host_integers,
    read_scores,
    usual_names,
)
from fstcrf.lattices.emissions.structure import ChainParameters
from fstcrf.lazy import optional
from fstcrf.machines.grammar import Grammar

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module, Parameter
else:
    torch = optional("torch", "fstcrf.ext.torch needs PyTorch; pip install 'fstcrf[torch]'")
    from torch import Tensor
    from torch.nn import Module, Parameter

__all__ = ["CRFLayer"]

Pairs: TypeAlias = Iterable[tuple[str, str]] | Mapping[tuple[str, str], ArrayLike]

ONLY = "label"
"""The tape of a layer of one head."""

_PADDING = -100
"""The label that PyTorch's losses ignore."""
_UNKNOWN = (-1, _PADDING)
"""Labels that are not known."""


class CRFLayer(Module):
    """Scores of successions of labels on top of a network's scores of tokens, under a grammar.

    ``layer(emissions, tags, lengths)`` is the negative log-likelihood of the labels, summed over
    the batch, with gradients for the emissions and for its own parameters.

    Parameters
    ----------
    labels : sequence of L str, mapping of id to str, or mapping of str to these
        Of the only head, in the order of the emissions' last axis (``id2label``); or of each of
        several heads, by the name of its tape. With several heads, emissions, tags and marginals
        are also dicts.
    grammar : Grammar, optional
        Constraints on labellings; sums include only legal ones.
    couplings : iterable of (str, str), or mapping of these to [L, L], optional
        Pairs of heads whose labels at one token have scores together; zeros at first, or as given.
    transitions, initial, final : array, or mapping of str to array, optional
        Initial values of the parameters, [L, L] and [L]; zeros by default.
    learned : bool
        Whether transitions, ends and couplings are parameters; buffers if not.
    on_no_path : {"error", "skip"}
        The treatment of a sentence without a path, or with illegal labels: an error that names it,
        or a loss and gradients of 0.
    names : str, mapping or callable, optional
        As for `fstcrf.Lattices.from_arrays`.
    threads : int
        No result depends on it.

    Raises
    ------
    OptionError, GrammarError
        Repeated labels; a coupling of an unknown head; a grammar of other labels.
    TooLargeError
        More joint states than a layer multiplies out.
    """

    def __init__(
        self,
        labels: LabelSet | Mapping[str, LabelSet],
        grammar: Grammar | None = None,
        couplings: Pairs = (),
        *,
        transitions: ArrayLike | Mapping[str, ArrayLike] | None = None,
        initial: ArrayLike | Mapping[str, ArrayLike] | None = None,
        final: ArrayLike | Mapping[str, ArrayLike] | None = None,
        learned: bool = True,
        on_no_path: Literal["error", "skip"] = "error",
        names: LabelNames | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__()
        if on_no_path not in ("error", "skip"):
            raise OptionError(f"on_no_path is {on_no_path!r}, expected 'error' or 'skip'")
        whole_number(threads, "threads", least=1)
        if grammar is not None and not isinstance(grammar, Grammar):
            raise OptionError(
                f"grammar is {type(grammar).__name__}, expected a Grammar, such as "
                "fstcrf.constraints.bioes()"
            )
        several = is_by_tape(labels) and bool(labels)
        by_tape: Any = labels if several else {ONLY: labels}
        tapes = tuple((str(tape), usual_names(own, names)) for tape, own in by_tape.items())
        tables = couplings if isinstance(couplings, Mapping) else dict.fromkeys(couplings)
        self._several, self.threads = several, threads
        self.heads = Heads(tapes, tuple(tables), grammar)
        self.on_no_path = on_no_path
        for name, given in (("transitions", transitions), ("initial", initial), ("final", final)):
            self._check_tapes(given, name)
            rank = 2 if name == "transitions" else 1
            made = [
                _begun(self._of_tape(given, tape), (len(own),) * rank, f"{name} of {tape}")
                for tape, own in tapes
            ]
            self._keep(name, made if several else made[0], learned=learned)
        sizes = {tape: len(own) for tape, own in tapes}
        for (one, other), table in tables.items():
            shape = sizes[one], sizes[other]
            made_one = _begun(table, shape, f"coupling {one}, {other}")
            self._keep(f"coupling_{one}_{other}", made_one, learned=learned)

    def _check_tapes(self, given: Any, name: str) -> None:
        tapes = [tape for tape, _ in self.heads.tapes]
        odd = [tape for tape in given if tape not in tapes] if isinstance(given, Mapping) else []
        if odd:
            raise OptionError(f"{name}: there is no head {odd[0]!r}, there are {', '.join(tapes)}")

    def _of_tape(self, given: Any, tape: str) -> Any:
        return given.get(tape) if isinstance(given, Mapping) else given

    def _keep(self, name: str, values: Tensor | list[Tensor], *, learned: bool) -> None:
        if isinstance(values, list):
            for (tape, _), one in zip(self.heads.tapes, values, strict=True):
                self._keep(f"{name}_{tape}", one, learned=learned)
        elif "." in name or hasattr(self, name):
            raise OptionError(
                f"heads {', '.join(tape for tape, _ in self.heads.tapes)}: {name!r} cannot be the "
                "name of one parameter; name heads without dots and underscores"
            )
        elif learned:
            self.register_parameter(name, Parameter(values))
        else:
            self.register_buffer(name, values)

    @property
    def labels(self) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
        """The labels; for several heads, by tape."""
        return dict(self.heads.tapes) if self._several else self.heads.tapes[0][1]

    def extra_repr(self) -> str:
        """Return the text in the brackets of `repr`."""
        sizes = " × ".join(f"{len(own)} {tape}" for tape, own in self.heads.tapes)
        grammar = "" if self.heads.grammar is None else f", grammar={self.heads.grammar}"
        return f"{sizes} labels{grammar}"

    # --- State ------------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """Return the labels for a `state_dict`: JSON as uint8, which safetensors can hold."""
        return torch.tensor(list(json.dumps(dict(self.heads.tapes)).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Refuse a `state_dict` with other labels than the layer."""
        _check_same(json.loads(bytes(state.tolist())), dict(self.heads.tapes))

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *more: Any, **options: Any
    ) -> None:
        given = state_dict.get(f"{prefix}_extra_state")
        if given is None:  # for example from an array file with only the parameters
            given = self.get_extra_state()
            state_dict = {**state_dict, f"{prefix}_extra_state": given}
        self.set_extra_state(given)  # before parameters are read: a layer is never half loaded
        super()._load_from_state_dict(state_dict, prefix, *more, **options)

    # --- Asked ------------------------------------------------------------------------------------

    @torch.compiler.disable
    def forward(
        self,
        emissions: Tensor | Mapping[str, Tensor],
        tags: Any,
        lengths: ArrayLike | Tensor | None = None,
        *,
        mask: ArrayLike | Tensor | None = None,
    ) -> Tensor:
        """Return the negative log-likelihood of labels, summed over the sentences.

        Parameters
        ----------
        emissions : Tensor [B, T, L], or mapping of str to these
            Scores of the labels at each token, on the CPU.
        tags : int [B, T], or mapping of str to these
            Label ids; −1 (or −100) for unknown labels, which are summed over. `lengths` or `mask`
            defines which tokens are left out. Or, for one head, bool [B, T, L]: the possible
            labels.
        lengths : int [B], optional
            Tokens of each sentence; all T when absent.
        mask : bool [B, T], optional
            Alternative to `lengths`: true at the tokens of each sentence, which precede the
            padding.

        Returns
        -------
        Tensor
            A number: float64 for emissions in float64, else float32, also of emissions in half
            precision, whose gradients have their type. It can be differentiated once.

        Raises
        ------
        OptionError
            Under ``torch.jit.trace`` or an exporter, which would keep the loss as a constant.
        NoPathError
            A sentence without a path, or with illegal labels, unless ``on_no_path="skip"``.
        ShapeError, NumericError, LabelError, OptionError
            Arguments that do not fit; NaN or +inf; an unknown label; a tensor that is not on the
            CPU.

        Warns
        -----
        LabelWarning
            A sentence that ends with −100, as padding does, without lengths or mask.
        """
        own = self._tensors(emissions)
        scores = self._read(own, lengths, mask)
        gold = self._tags(tags, scores[0])
        unbounded = lengths is None and mask is None and isinstance(gold, list)
        if unbounded and any((one[:, -1:] < 0).any() for one in gold):
            self._tell_of_padding(tags)
        tensors = (*own, *self._parameters_in_order())
        found: Tensor = _NegativeLogLikelihood.apply(self, scores, gold, len(own), *tensors)
        return found

    @torch.compiler.disable
    def decode(
        self,
        emissions: Tensor | Mapping[str, Tensor],
        lengths: ArrayLike | Tensor | None = None,
        *,
        mask: ArrayLike | Tensor | None = None,
    ) -> Answer:
        """Return the best labels, as `fstcrf.decode` does, in an `Answer`.

        For several heads, ``answer[tape]`` has the labels of a tape, ``answer.marginals(tape)`` and
        ``answer.span_probabilities(tape)`` its probabilities. Parameters and errors as for the
        loss. Emissions must not be changed before these are asked for.
        """
        scores = self._read(self._by_tape(emissions, "emissions"), lengths, mask)
        return best_labels(self.heads, scores, *self._values(), threads=self.threads)

    @torch.compiler.disable
    def marginals(
        self,
        emissions: Tensor | Mapping[str, Tensor],
        lengths: ArrayLike | Tensor | None = None,
        *,
        mask: ArrayLike | Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Return the probability of each label at each token, [B, T, L], without a gradient.

        float64 for emissions in float64, else float32. 0 beyond a sentence's end, and in one
        without a path. For several heads, a dict by tape.
        """
        own = self._tensors(emissions)
        scores = self._read(own, lengths, mask)
        found = label_probabilities(self.heads, scores, *self._values(), threads=self.threads)
        made = [torch.from_numpy(a).to(_wide([e])) for a, e in zip(found, own, strict=True)]
        names = [tape for tape, _ in self.heads.tapes]
        return dict(zip(names, made, strict=True)) if self._several else made[0]

    # --- As the kernel reads it -------------------------------------------------------------------

    def _by_tape(self, given: Any, name: str) -> list[Any]:
        if not self._several:
            return [given]
        tapes = [tape for tape, _ in self.heads.tapes]
        if not isinstance(given, Mapping) or set(given) != set(tapes):
            raise OptionError(f"{name}: expected a dict with {', '.join(map(repr, tapes))}")
        return [given[tape] for tape in tapes]

    def _tensors(self, emissions: Any) -> list[Tensor]:
        own = self._by_tape(emissions, "emissions")
        odd = [one for one in own if not isinstance(one, Tensor)]
        if odd:
            raise OptionError(f"emissions are {type(odd[0]).__name__}, expected a torch.Tensor")
        return own

    def _read(self, emissions: Sequence[Tensor], lengths: Any, mask: Any) -> list[Scores]:
        exporting = getattr(torch.compiler, "is_exporting", bool)  # from PyTorch 2.7 on
        if torch.jit.is_tracing() or exporting():
            raise OptionError(
                "a CRFLayer cannot be traced or exported, because its answers would become "
                "constants: trace only the network, and call the layer on its output"
            )
        pairs = zip(emissions, self.heads.tapes, strict=True)
        found = [read_scores(e, lengths, mask=mask, n_labels=len(own)) for e, (_, own) in pairs]
        if any(one.rows.shape[:2] != found[0].rows.shape[:2] for one in found):
            shapes = ", ".join(str(list(one.rows.shape)) for one in found)
            raise ShapeError(
                f"emissions of the heads are {shapes}: all heads need the same sentences "
                "and lengths"
            )
        return found

    def _tags(self, tags: Any, scores: Scores) -> list[Ints] | Bools:
        shape = len(scores), scores.width
        if not self._several and str(getattr(tags, "dtype", "")).endswith("bool"):
            allowed: Bools = host_array(tags, "tags").astype(bool)
            wanted = (*shape, len(self.heads.tapes[0][1]))
            if allowed.shape != wanted:
                raise ShapeError(f"tags are {list(allowed.shape)}, expected {list(wanted)}")
            return allowed
        found = []
        for given, (tape, labels) in zip(
            self._by_tape(tags, "tags"), self.heads.tapes, strict=True
        ):
            ids = host_integers(given, "tags")
            if ids.shape != shape:
                raise ShapeError(f"tags are {list(ids.shape)}, expected {list(shape)}")
            found.append(_known(ids, scores, tape, len(labels)))
        return found

    def _tell_of_padding(self, tags: Any) -> None:
        """Warn of −100 at the end of a sentence, which is padding that is taken for tokens."""
        last = [host_array(one, "tags")[:, -1:] for one in self._by_tape(tags, "tags")]
        if any((one == _PADDING).any() for one in last):
            warnings.warn(
                "a sentence ends with the label -100, without lengths or mask: these tokens are "
                "summed over, as with -1, and not left out; say where sentences end by "
                "mask=attention_mask or lengths=",
                LabelWarning,
                stacklevel=6,  # behind forward and what torch puts around it
            )

    def _parameters_in_order(self) -> list[Tensor]:
        suffixes = [f"_{tape}" for tape, _ in self.heads.tapes] if self._several else [""]
        names = [f"{name}{s}" for s in suffixes for name in ("transitions", "initial", "final")]
        names += [f"coupling_{one}_{other}" for one, other in self.heads.pairs]
        return [getattr(self, name) for name in names]

    def _values(self) -> tuple[list[ChainParameters], dict[tuple[str, str], Any]]:
        return self._named([_float64(p) for p in self._parameters_in_order()])

    def _named(
        self, values: Sequence[Any]
    ) -> tuple[list[ChainParameters], dict[tuple[str, str], Any]]:
        count = len(self.heads.tapes)
        chains = [ChainParameters(*values[3 * k : 3 * k + 3]) for k in range(count)]
        return chains, dict(zip(self.heads.pairs, values[3 * count :], strict=True))


class _NegativeLogLikelihood(torch.autograd.Function):
    """The loss of a batch; its gradients are found with it."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: CRFLayer,
        scores: list[Scores],
        gold: list[Ints] | Bools,
        heads: int,
        *tensors: Tensor,
    ) -> Tensor:
        chains, couplings = layer._named([_float64(p) for p in tensors[heads:]])  # noqa: SLF001
        found = likelihood(
            *(layer.heads, scores, chains, couplings, gold),
            skip=layer.on_no_path == "skip",
            gradients=any(ctx.needs_input_grad),
            threads=layer.threads,
        )
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*_gradients(layer, found, tensors), *tensors)
        return torch.tensor(float(found.loss.sum()), dtype=_wide(tensors[:heads]))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        wanted, count = ctx.needs_input_grad[4:], len(ctx.saved_tensors) // 2
        gradients, inputs = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        parts = [
            (one * upstream.to(one.dtype)).to(own.dtype) if asked else None
            for one, own, asked in zip(gradients, inputs, wanted, strict=True)
        ]
        if torch.is_grad_enabled():
            parts = [
                None if one is None else _DifferentiatedOnce.apply(one, own)
                for one, own in zip(parts, inputs, strict=True)
            ]
        return None, None, None, None, *parts


class _DifferentiatedOnce(torch.autograd.Function):
    """A gradient without second derivatives."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, own: Tensor) -> Tensor:  # noqa: ARG004
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:  # type: ignore[override]  # noqa: ARG004 (torch asks for it)
        raise OptionError(
            "the loss of a CRFLayer can be differentiated once: there are no second derivatives"
        )


def _check_same(given: Mapping[str, Sequence[str]], own: Mapping[str, Sequence[str]]) -> None:
    if list(given) != list(own):
        heads = ", ".join(map(repr, given)), ", ".join(map(repr, own))
        raise LabelError(f"the state_dict is of a layer with the heads {heads[0]}, not {heads[1]}")
    for tape, labels in own.items():
        if len(given[tape]) != len(labels):
            counts = f"{len(given[tape])} labels of {tape}, and this layer {len(labels)}"
            odd = sorted({*given[tape]} ^ {*labels})
            raise LabelError(f"the state_dict has {counts}; only one of them has {', '.join(odd)}")
        for k, (theirs, mine) in enumerate(zip(given[tape], labels, strict=True)):
            if theirs != mine:
                raise LabelError(
                    f"the state_dict is of other labels: label {k} of {tape} is {theirs!r} there, "
                    f"and {mine!r} in this layer; make the layer with the labels of the state_dict"
                )


def _known(ids: Longs, scores: Scores, tape: str, size: int) -> Ints:
    """Return label ids, int32 [B, T], −1 for unknown labels."""
    if (ids.view(np.uint64) < size).all():  # those below 0 are large there
        return ids.astype(np.int32)
    wrong = ((ids >= size) | (ids < 0)) & scores.inside
    odd = wrong & ~np.isin(ids, _UNKNOWN)
    if odd.any():
        b, t = (int(i[0]) for i in np.nonzero(odd))
        raise LabelError(
            f"sentence {b}, token {t}: label id {ids[b, t]} of {tape}, expected 0 to "
            f"{size - 1}, or -1 if the label is unknown"
        )
    return np.where(wrong, -1, ids).astype(np.int32)


def _gradients(layer: CRFLayer, found: LabelLoss, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of the tensors, in their order; never in half precision.

    Their factors may be large, for example if losses are scaled for half precision.
    """
    flat: list[Array] = list(found.emissions)
    for chain in found.chains:
        flat += chain
    flat += [found.couplings[pair] for pair in layer.heads.pairs]
    return [
        torch.from_numpy(np.ascontiguousarray(a)).to(_wide([t]))
        for a, t in zip(flat, tensors, strict=True)
    ]


def _wide(tensors: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype of sums of tensors: float64 if any tensor has it, else float32."""
    double = any(one.dtype == torch.float64 for one in tensors)
    return torch.float64 if double else torch.float32


def _float64(tensor: Tensor) -> Any:
    if tensor.device.type != "cpu":
        raise OptionError(f"parameters are on {tensor.device}: move the layer to the CPU")
    return tensor.detach().to(torch.float64).numpy()


def _begun(given: Any, shape: tuple[int, ...], name: str) -> Tensor:
    """Return the initial value of a parameter."""
    if given is None:
        return torch.zeros(shape)
    array = host_array(given, name)
    if array.shape != shape:
        raise ShapeError(f"{name} are {list(array.shape)}, expected {list(shape)}")
    return torch.from_numpy(array.astype(np.float32))
