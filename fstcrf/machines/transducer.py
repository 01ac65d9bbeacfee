"""A weighted transducer: from one tape to another, or an acceptor over one tape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, check_array, label_tuple, real_array
from fstcrf.arrays import Floats
from fstcrf.errors import LabelError, OptionError
from fstcrf.lazy import LazyModule, made_once
from fstcrf.machines.machine import Machine, Semiring

if TYPE_CHECKING:
    import pynini

    from fstcrf.machines import algebra, languages, openfst, relations, sources
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.grammar.labels import Labels
else:  # most transducers are from nowhere else, and stay as they are
    algebra = LazyModule("fstcrf.machines.algebra")
    languages = LazyModule("fstcrf.machines.languages")
    openfst = LazyModule("fstcrf.machines.openfst")
    relations = LazyModule("fstcrf.machines.relations")
    sources = LazyModule("fstcrf.machines.sources")


class Transducer(Machine):
    """A weighted transducer; a path begins in state 0.

    ``lattice @ transducer`` and ``tagger @ transducer`` are compositions: the transducer reads one
    tape and writes another. An arc may omit reading or writing, a string may have several runs, and
    outputs may be longer or shorter than inputs.

    Made by `from_text`, `from_fst`, `from_arrays`, `from_pairs`, `from_table` or `lm`. Its arrays
    are read-only copies; `with_scores` returns it with other scores.

    Parameters
    ----------
    source, input, output, target : int32 [A]
        States, and symbols between them; −1 for no symbol.
    score : float64 [A]
        Natural logs; −inf forbids.
    final : float64 [Q]
        −inf: no path ends there.
    input_symbols, output_symbols : tuple of str
        Distinct names. The absence of a symbol is −1 and has no name: ``<eps>`` cannot be a symbol.
    semiring : {"log", "tropical"}
        The weight of several runs over the same strings: their sum, or the best of them.
    tape : str, optional
        The output tape; `None` for an acceptor, which writes its input and adds no tape.
    reads : str, optional
        The tape that it reads; the last one when absent.
    named : mapping of str to float64 [A + Q]
        For each cost with a name, ``<?name>`` in a ``.grm`` file, how often each arc has it, and
        each end. ``|``, ``+``, ``@``, `closure`, `reverse`, `invert`, `project` and
        `remove_epsilon` keep them; an arc that replaces several silent paths, whose weights are
        summed, has their mean at the present scores.

    Raises
    ------
    ShapeError
        Arrays of another type or size, in `named` as well; a state or a symbol that does not
        exist; no state.
    LabelError
        A symbol that is there twice; ``<eps>`` among the symbols.
    NumericError
        Scores with NaN or +inf.
    OptionError
        Another semiring; an acceptor that writes something else than it reads.
    """

    def __matmul__(self, other: object) -> Transducer:
        """Return the composition: it reads this one's input, and writes the other one's output."""
        if isinstance(other, Transducer):
            return algebra.composed(self, other)
        raise OptionError(
            f"{self!r} must be the right operand of @: lattice @ transducer, or tagger @ transducer"
        )

    def __rand__(self, other: Never) -> Never:
        raise OptionError(f"{self!r} is not a grammar: compose it, lattice @ transducer")

    def on(self, tape: str, writes: str | None = None) -> Self:
        """Return the transducer with another input tape, and with another output tape if given."""
        return replace(self, reads=tape, tape=self.tape if writes is None else writes)

    @made_once
    def structure(self) -> object:
        """A cache key that this machine shares with its copies from `with_scores`."""
        return object()

    def with_scores(self, score: ArrayLike, final: ArrayLike | None = None) -> Self:
        """Return the machine with other scores, and the same states, arcs and symbols.

        Compiled structure is used again, as long as the same arcs and ends are forbidden: this is a
        step of training.

        Parameters
        ----------
        score : [A]
            Natural logs, of arcs; −inf forbids.
        final : [Q], optional
            Natural logs, of ends; as they are when absent.

        Raises
        ------
        ShapeError
            Another number of scores.
        NumericError
            NaN or +inf.

        Examples
        --------
        >>> machine = Transducer.from_table({"NN": "NOUN", "VB": "VERB"})
        >>> machine.with_scores(machine.score - 0.5).score
        array([-0.5, -0.5])
        """
        ends = self.final if final is None else real_array(final, "transducer: final")
        scores = real_array(score, "transducer: score")
        for name, array, current in (("score", scores, self.score), ("final", ends, self.final)):
            check_array("transducer", name, array, np.float64, len(current))
        made = replace(self, score=scores, final=ends)
        made.__dict__["structure"] = self.structure
        return made

    # --- The algebra: what is made is a transducer again --------------------------------------

    def __or__(self, other: object) -> Transducer:
        """Return the union: it combines the weights of both for each pair of strings."""
        return algebra.union(self, _operand(other))

    def __add__(self, other: object) -> Transducer:
        """Return the concatenation: strings of this one, then strings of the other one."""
        return algebra.concatenation(self, _operand(other))

    def __and__(self, other: object) -> Transducer:
        """Return the acceptor of common strings of both acceptors; weights of one string add."""
        return algebra.intersection(self, _operand(other))

    def __sub__(self, other: object) -> Transducer:
        """Return the acceptor of this one's strings that the other one rejects; no weights."""
        return languages.difference(self, _operand(other))

    def __invert__(self) -> Transducer:
        """Return the acceptor of all rejected strings; weights are not allowed."""
        return languages.complement(self)

    def closure(self) -> Transducer:
        """Return the closure: strings of this one, repeated any number of times, even none."""
        return algebra.closure(self)

    def invert(self) -> Transducer:
        """Return the transducer with input and output exchanged; see `on`."""
        return algebra.inverted(self)

    def project(self, side: Literal["input", "output"]) -> Transducer:
        """Return the acceptor of its inputs or outputs; weights of one string are combined."""
        return algebra.projected(self, side)

    def reverse(self) -> Transducer:
        """Return the transducer of the reversed strings."""
        return algebra.reversed_(self)

    def push(self) -> Transducer:
        """Return the transducer with weights moved as early on each path as possible.

        Raises
        ------
        NumericError
            The sum of the ways from a state to an end is infinite, because a cycle gains.
        TooLargeError
            More than 2,000 states in one cycle component of a log transducer.
        """
        return algebra.pushed(self)

    def replace(self, parts: Mapping[str, Transducer], depth: int) -> Transducer:
        r"""Return the transducer with machines in place of symbols: a name represents a machine.

        It reads and writes the strings of the machine, whose weight is added to the arc's weight.
        Machines may also write names, including their own.

        Parameters
        ----------
        parts : mapping of str to Transducer
            Machines by their symbols. Such an arc also reads that symbol, or has no input symbol.
        depth : int
            Maximum depth of machines inside each other. Deeper arcs with a name are left out.

        Raises
        ------
        OptionError
            Machines of two semirings; an arc that reads or writes a name and something else; a
            depth below 0.
        TooLargeError
            More than 20 million arcs, or 2,000 machines within each other.

        Examples
        --------
        >>> pair = Transducer.from_text("0 1 (\n1 2 S\n1 2 <eps>\n2 3 )\n3", tape=None)
        >>> pair.replace({"S": pair}, 1).witness(pair.replace({"S": pair}, 0))
        ('(', '(', ')', ')')
        """
        return algebra.replaced(self, parts, depth)

    def remove_epsilon(self) -> Transducer:
        """Return an equivalent transducer in which each arc reads or writes a symbol."""
        return algebra.without_epsilon(self)

    def determinize(self) -> Transducer:
        """Return an acceptor with the same weights, and at most one run for each string.

        Raises
        ------
        OptionError
            No acceptor.
        EpsilonCycleError
            A cycle without symbols that gains, or the sum over which is infinite.
        TooLargeError
            A deterministic machine has more than 10,000 states, or does not exist.
        """
        return languages.determinised(self)

    def minimize(self) -> Transducer:
        """Return the smallest deterministic acceptor with the same weights; see `determinize`."""
        return languages.minimised(self)

    def support(self) -> Transducer:
        """Return the tropical transducer of the same pairs of strings, all with weight 0."""
        return algebra.support(self)

    def shortest(self) -> languages.Run | None:
        """Return the path with the highest score: its `input`, `output` and `score`.

        It is OpenFst's shortest path; of several, one with the fewest arcs. In the log semiring,
        too, the score is the score of one path. `None` if there is no path.

        Raises
        ------
        NumericError
            A cycle that gains: there is no best path.

        Examples
        --------
        >>> tags = Transducer.from_table({"VB": {"VERB": -0.5, "AUX": -1.5}})
        >>> (Transducer.from_pairs([("VB", "VB")], tape=None) @ tags).shortest()
        Run(input=('VB',), output=('VERB',), score=-0.5)
        """
        return languages.shortest(self)

    def example(self) -> tuple[str, ...] | None:
        """Return a string with the fewest labels that an acceptor accepts, or `None`."""
        return languages.example(self)

    def witness(self, other: Transducer) -> tuple[str, ...] | None:
        """Return a shortest string that only one acceptor accepts, or `None`; no weights."""
        return languages.witness(self, _operand(other))

    def equivalent(self, other: Transducer, *, tolerance: float = 1e-9) -> bool:
        """Return whether two acceptors give each string the same weight.

        Compare `support` of both to ask whether they accept the same strings.

        Parameters
        ----------
        other : Transducer
        tolerance : float
            Largest difference of scores, relative to scores above 1.

        Raises
        ------
        OptionError, EpsilonCycleError, TooLargeError
            As for `determinize`.
        """
        return languages.equivalent(self, _operand(other), tolerance)

    def sample(self, n: int, *, seed: int = 0) -> list[tuple[str, ...]]:
        """Return random strings of an acceptor; all choices at a state are equally likely."""
        return languages.sampled(self, n, seed)

    # --- From elsewhere -----------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        source: ArrayLike,
        input: ArrayLike,  # noqa: A002 (what it is called)
        output: ArrayLike,
        target: ArrayLike,
        score: ArrayLike | None = None,
        final: ArrayLike | None = None,
        *,
        input_symbols: LabelSet,
        output_symbols: LabelSet,
        semiring: Semiring = "log",
        tape: str | None = "output",
        named: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Return the transducer of arrays of any integer or float type.

        Parameters
        ----------
        source, input, output, target : int [A]
            States from 0, the start, and symbols; −1 for no symbol.
        score : [A], optional
            Natural logs; zeros when absent.
        final : [Q], optional
            Natural logs of ending; −inf: no path ends there. When absent, a path may end in every
            state that is there.
        input_symbols, output_symbols : sequence of str, or mapping of id to str
        semiring, tape, named
            As for the class.

        Raises
        ------
        ShapeError, NumericError, OptionError, TooLargeError
            As the class; numbers that are no integers, or of states far beyond the number of arcs.
        """
        arcs = {"source": source, "input": input, "output": output, "target": target}
        return cls(
            **sources.columns(arcs, score, final, named or {}),
            input_symbols=label_tuple(input_symbols, error=LabelError),
            output_symbols=label_tuple(output_symbols, error=LabelError),
            semiring=semiring,
            tape=tape,
        )

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        semiring: Semiring = "log",
        tape: str | None = "output",
        input_symbols: LabelSet | None = None,
        output_symbols: LabelSet | None = None,
        numeric: bool = False,
        epsilon: str | None = None,
    ) -> Self:
        r"""Return the transducer of a text in AT&T's format, as ``fstprint`` writes it.

        Each line is ``source target input output [cost]``, or ``state [cost]`` for an end; costs
        are −score. The first line's source is the start; ``<eps>`` is no symbol. A file with only
        numbers is refused: they may be ids, among which 0 is epsilon, or names.

        Parameters
        ----------
        text : str
        semiring, tape
            As for the class; with ``tape=None`` there is one column for both symbols.
        input_symbols, output_symbols : sequence of str, optional
            All symbols of each side, in order. By default, the symbols of the text, in order of
            appearance.
        numeric : bool
            Symbols are numbers: i + 1 is the given symbol i, 0 is epsilon.
        epsilon : str, optional
            Another name of epsilon, besides ``<eps>``: ``"@0@"`` in texts of foma. When absent,
            such a name is a symbol, with a warning.

        Raises
        ------
        DataError, LabelError, OptionError
            A line that is not an arc or end; the message names it. A text without states; an
            unknown symbol; numbers without symbols.

        Examples
        --------
        >>> chunks = Transducer.from_text("0 1 B-NP NP\n1 1 I-NP <eps>\n1", tape="chunks")
        >>> chunks
        <Transducer: the last tape → chunks; 2 states, 2 arcs, log>
        """
        if not isinstance(text, str):
            raise OptionError(f"from_text reads a str, not {type(text).__name__}")
        symbols = input_symbols, input_symbols if tape is None else output_symbols
        naming = openfst.Naming(symbols, semiring, tape)
        return cls._of(openfst.from_att(text, naming, numeric=numeric, epsilon=epsilon))

    @classmethod
    def from_fst(
        cls,
        fst: pynini.Fst | str | Path,
        *,
        input_symbols: LabelSet | None = None,
        output_symbols: LabelSet | None = None,
        semiring: Semiring | None = None,
        tape: str | None = "output",
    ) -> Self:
        """Return the transducer that a machine of OpenFst is.

        Parameters
        ----------
        fst : pynini.Fst, or str or Path
            Or a file of one: OpenFst's bytes, which need no pynini. Weights are costs, −score.
        input_symbols, output_symbols : sequence of str, optional
            Symbol i + 1 of each side, if the machine has no symbol table.
        semiring : {"log", "tropical"}, optional
            By default, the semiring of its arcs: tropical for ``standard`` arcs, log for ``log``
            and ``log64``.
        tape : str, optional
            As for the class.

        Raises
        ------
        DataError
            A file of something else.
        LabelError
            Symbols without a name.
        OSError
            A file that cannot be read.
        """
        naming = openfst.Naming((input_symbols, output_symbols), semiring, tape)
        return cls._of(openfst.from_fst(fst, naming))

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[tuple[str | Sequence[str], str | Sequence[str]]],
        scores: ArrayLike | None = None,
        *,
        semiring: Semiring = "log",
        tape: str | None = "output",
    ) -> Transducer:
        """Return the transducer from each first string of some pairs to the second one.

        Labels are paired by their places; if one string is longer, its further labels are written
        after the end of the input, or read without output. Pairs share the states of their common
        beginnings.

        Parameters
        ----------
        pairs : iterable of (inputs, outputs)
            Sequences of labels; in a str these are separated by blanks.
        scores : [n], optional
            Natural logs; zeros when absent. A pair that is there twice is two runs.
        semiring, tape
            As for the class.

        Raises
        ------
        ShapeError
            Another number of scores.
        NumericError
            NaN or +inf.

        Examples
        --------
        >>> Transducer.from_pairs([("New York", "LOC"), ("York", "LOC")])
        <Transducer: the last tape → output; 4 states, 3 arcs, log>
        """
        return cls._of(sources.of_pairs(pairs, scores, semiring, tape))

    @classmethod
    def from_table(
        cls,
        table: Mapping[str, str | Sequence[str] | Mapping[str, float] | None],
        *,
        semiring: Semiring = "log",
        tape: str = "output",
    ) -> Transducer:
        """Return the transducer that rewrites labels one by one, independently of context.

        Parameters
        ----------
        table : mapping
            The possible outputs of each input label: a label, several labels, a mapping of labels
            to scores (natural logs), or `None` for no output.
        semiring, tape
            As for the class.

        Raises
        ------
        NumericError
            NaN or +inf.

        Examples
        --------
        >>> Transducer.from_table({"NN": "NOUN", "VB": {"VERB": 0.0, "AUX": -1.5}, ".": None})
        <Transducer: the last tape → output; 1 states, 4 arcs, log>
        """
        return cls._of(sources.of_table(table, semiring, tape))

    @classmethod
    def lm(cls, path: str | Path, labels: LabelSet | None = None) -> Transducer:
        """Return the language model of an ARPA file as an acceptor.

        Its scores are natural logs of probabilities, the end of a sentence among them. Failure arcs
        are expanded: a context reads each label, through a back-off if it has no arc for it.

        Parameters
        ----------
        path : str or Path
            UTF-8 text, perhaps gzipped.
        labels : sequence of str, optional
            The input labels; labels that the file lacks are its ``<unk>``, or, without that,
            illegal. All its words when absent.

        Raises
        ------
        DataError
            A file of something else, or one that is cut short, has no ``</s>``, has an n-gram
            twice, a probability above 1, or a word that is no 1-gram; names the line.
        TooLargeError
            More than 20 million arcs.
        OSError
            A file that cannot be read.
        """
        return cls._of(sources.read_arpa(path, labels))

    @classmethod
    def from_grammar(
        cls,
        source: Grammar | str | Path,
        labels: Labels,
        *,
        export: str | None = None,
        weights: Mapping[str, float] | None = None,
        tape: str = "output",
        semiring: Semiring = "tropical",
        folders: Sequence[str | Path] = (),
    ) -> Transducer:
        """Return a grammar, or an export of a ``.grm`` file, as a transducer.

        A relation, such as ``x : y``, writes a tape. Another expression is an acceptor with all its
        alternatives: it may be one that has no deterministic form of 10,000 states.

        Parameters
        ----------
        source : Grammar, str or Path
            A grammar over one tape, the text of a file, or the path of one.
        labels : sequence of str, or mapping of str to sequence of str
            The labels of the tape that it reads, or of each tape by name.
        export : str, optional
            Which export; the only one when absent.
        weights : mapping of str to float, optional
            The costs of names, ``<?name>``; 0 when absent.
        tape : str
            The tape that a relation writes.
        semiring : {"tropical", "log"}
            As for the class: the costs of several alternatives for one string are the lowest of
            them, or add up as probabilities do.
        folders : sequence of path
            As for `Grammar.from_file`.

        Raises
        ------
        GrammarError
            A text that cannot be read or bound, with its place; an unknown export or name.
        TooLargeError
            More states than can be had.
        OSError
            A file that cannot be read.

        Examples
        --------
        >>> spans = Transducer.from_grammar(
        ...     'export X = (("[B-NP]" "[I-NP]"* : "[NP]") | ("[O]" : ""))*;', ["O", "B-NP", "I-NP"]
        ... )
        >>> spans.output_symbols
        ('NP',)
        """
        args = source, labels, export, weights, tape, semiring, folders
        return cls._of(relations.from_grammar(*args))

    def by_name(self, gradient: Floats) -> dict[str, float]:
        """Return the derivatives of named costs from a derivative by arc and end.

        Parameters
        ----------
        gradient : float64 [A + Q]
            The derivative in the score of each arc, and each end.

        Raises
        ------
        ShapeError
            Another number of derivatives.
        """
        size = len(self.score) + len(self.final)
        gradient = real_array(gradient, "gradient")
        check_array("by_name, of arcs and states", "gradient", gradient, np.float64, size)
        return {name: -float(uses @ gradient) for name, uses in self.named.items()}

    def with_failures(self, target: ArrayLike, score: ArrayLike) -> Transducer:
        """Return the same machine with failure arcs, expanded.

        A state without an arc for a label adds its failure score and continues from its failure
        target; so does a state that is not final. Arcs of a state hide arcs of its failure target.

        Parameters
        ----------
        target : int [Q]
            −1: the state has no failure arc.
        score : [Q]
            Natural logs.

        Raises
        ------
        OptionError
            Failure arcs that go in a circle; arcs without input.
        ShapeError
            Arrays of other sizes, states that there are not.
        TooLargeError
            More than 20 million arcs.
        """
        return sources.expanded(self, target, score)

    @classmethod
    def _of(cls, machine: Machine) -> Self:
        made = object.__new__(cls)  # its arrays have been checked
        for one in fields(Machine):
            object.__setattr__(made, one.name, getattr(machine, one.name))
        return made

    def to_fst(self, arc_type: openfst.ArcType | None = None) -> pynini.Fst:
        """Return the transducer as a machine of pynini; weights are costs.

        Parameters
        ----------
        arc_type : {"standard", "log", "log64"}, optional
            When absent, standard for a tropical one, else log64.

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        kind: openfst.ArcType = "standard" if self.semiring == "tropical" else "log64"
        made: pynini.Fst = openfst.to_fst(self, kind if arc_type is None else arc_type)
        return made

    def to_att(self, *, numeric: bool = False) -> str:
        """Return the transducer as AT&T text, which `from_text` reads.

        A symbol that holds a tab, a blank or a line end is a LabelError, unless `numeric` writes
        i + 1 for symbol i.
        """
        return openfst.att_text(self, numeric=numeric)


def _operand(other: object) -> Transducer:
    if isinstance(other, Transducer):
        return other
    raise OptionError(f"{type(other).__name__}: |, +, &, - and witness take two transducers")
