"""Grammars: constraints that the labels of a sentence must all satisfy.

A grammar knows names of labels, not label sets: the same one serves every tagger that has these
labels. It must be *bound* to label sets before use; bindings are cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, string_list, whole_number
from fstcrf.errors import GrammarError, LabelError, OptionError
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import Labels, LabelSets, label_sets, listed

if TYPE_CHECKING:
    import os

    import pynini

    from fstcrf import files
    from fstcrf.machines.grammar import algebra, automata, language
    from fstcrf.machines.grammar.algebra import Labelling
    from fstcrf.machines.openfst import ArcType
else:  # loading a tagger does not need the compiler of grammars
    algebra = LazyModule("fstcrf.machines.grammar.algebra")
    automata = LazyModule("fstcrf.machines.grammar.automata")
    files = LazyModule("fstcrf.files")
    language = LazyModule("fstcrf.machines.grammar.language")

pictures = LazyModule("fstcrf.ext.pictures.grammars")


class Grammar:
    """A conjunction of constraints on the labels of one tape or several.

    Created by the functions of `fstcrf.constraints`, from the text of a ``.grm`` file, or from a
    pynini machine. ``g1 & g2`` is the intersection, ``g1 | g2`` the union, ``g1 - g2`` the
    difference, and ``~g`` the complement. ``g1 == g2`` compares their languages and scores.

    Parameters
    ----------
    constraints : sequence of Constraint
    labels : sequence of str, or mapping of str to sequence of str, optional
        The label set of the only tape, or of each tape by name: the grammar is bound to them at
        once, so that errors are reported early.

    Raises
    ------
    GrammarError
        A name that is neither label nor type; a constraint that accepts no labelling.

    Examples
    --------
    >>> from fstcrf.constraints import at_most, bio
    >>> grammar = bio() & at_most(1, "NP")
    >>> grammar
    Grammar(bio() & at_most(1, "NP"))
    >>> [acceptor.n_states for acceptor in grammar.bind(["O", "B-NP", "I-NP"])]
    [2, 3]
    """

    def __init__(self, constraints: Sequence[Constraint], labels: Labels | None = None) -> None:
        self.constraints = tuple(constraints)
        self.labels: LabelSets | None = None if labels is None else label_sets(labels)
        if self.labels is not None:
            self.bind(self.labels)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        labels: Labels | None = None,
        *,
        weights: Mapping[str, float] | None = None,
        folders: Sequence[str | Path] = (),
    ) -> Grammar:
        """Read a ``.grm`` file; its exports must all be satisfied.

        Parameters
        ----------
        path : str or Path
            UTF-8 text.
        labels : sequence of str, or mapping of str to sequence of str, optional
            Label sets to bind it to at once.
        weights : mapping of str to float, optional
            Costs of ``<?name>``; 0 if absent.
        folders : sequence of path
            Other folders from which ``import`` and ``fst[...]`` may read files, subfolders
            included. The folder of the first file is always allowed (the working folder for a
            text). Symbolic links are resolved first.

        Raises
        ------
        GrammarError
            A file that cannot be read or bound; names file, line and column.
        OSError
            A file that cannot be read.
        """
        return cls(language.read_grammar(path, weights, folders), labels)

    @classmethod
    def from_text(
        cls,
        text: str,
        labels: Labels | None = None,
        *,
        weights: Mapping[str, float] | None = None,
        folders: Sequence[str | Path] = (),
    ) -> Grammar:
        """Return the grammar of a text in the syntax of ``.grm`` files.

        Parameters are the same as for `from_file`, with the text in place of the path.

        Raises
        ------
        GrammarError
            A text that cannot be read or bound; names line and column.

        Examples
        --------
        >>> text = 'export NP = ("[O]" | "[B-NP]" "[I-NP]"*)*;'
        >>> Grammar.from_text(text, ["O", "B-NP", "I-NP"]).accepts(["O", "I-NP"])
        False
        """
        return cls(language.parse_grammar(text, None, weights, folders), labels)

    @classmethod
    def shipped(cls, name: str, labels: Labels | None = None) -> Grammar:
        """Read a grammar that is part of fstcrf, such as ``"bio"``.

        Raises
        ------
        GrammarError
            No grammar has this name.
        """
        return cls.from_file(language.shipped_grammar(name), labels)

    @classmethod
    def from_fst(
        cls, fst: pynini.Fst | str | Path, *, tape: str | None = None, name: str = ""
    ) -> Grammar:
        """Return the grammar of an acceptor over label symbols.

        Parameters
        ----------
        fst : pynini.Fst, or str or Path
            An acceptor, or a file of one: OpenFst's bytes, which need no pynini. Labels are the
            names in its input symbol table; without a table, label i of the tagger is symbol i + 1.
            Weights are costs: a labelling scores minus its cheapest path. A machine of the log
            semiring (arcs of type log or log64) has one path for each labelling.
        tape : str, optional
            The tape it reads; needed if there are several tapes.
        name : str
            Name in messages; the name of the file, or ``fst``, if empty.

        Raises
        ------
        GrammarError
            The machine is not an acceptor; it is of the log semiring and has several paths for a
            labelling; when bound: a symbol is not a label.
        DataError
            A file of another kind.
        OSError
            A file that cannot be read.
        """
        return cls((automata.constraint_from_machine(fst, tape, name),))

    @classmethod
    def from_arrays(
        cls,
        labels: LabelSet,
        target: ArrayLike,
        *,
        score: ArrayLike | None = None,
        final: ArrayLike | None = None,
        tape: str | None = None,
        name: str = "acceptor",
    ) -> Grammar:
        """Return the grammar of a deterministic acceptor, given as arrays.

        Parameters
        ----------
        labels : sequence of L str
            Labels of the tagger, in any order; other labels are rejected.
        target : int [Q, L]
            State after (state, label), −1: rejected. State 0 is the start.
        score : float64 [Q, L], optional
            Natural-log scores of the steps; zeros if absent.
        final : float64 [Q], optional
            Natural-log scores of ending in each state, −inf if a sentence may not end there; zeros
            if absent.
        tape : str, optional
            The tape it reads; needed if there are several tapes.
        name : str
            Name in messages.

        Raises
        ------
        ShapeError
            Arrays that disagree, or targets that are not states.
        NumericError
            A score that is NaN, +inf, or −inf on a step.
        GrammarError
            Duplicate labels; when bound: a label that the tagger does not have.

        Examples
        --------
        >>> even = Grammar.from_arrays(["A"], [[1], [0]], final=[0, float("-inf")])
        >>> even.bound(["A", "B"]).accepts(["A", "A"]), even.bound(["A", "B"]).accepts(["A"])
        (True, False)
        """
        return cls((automata.constraint_from_arrays(labels, target, score, final, tape, name),))

    @classmethod
    def from_acceptor(cls, acceptor: Acceptor) -> Grammar:
        """Return the grammar of one acceptor; it binds to the acceptor's label sets only."""
        name = acceptor.name or "acceptor"
        return cls((Constraint(name, partial(_unchanged, acceptor), language=True),))

    def __and__(self, other: Grammar) -> Grammar:
        if not isinstance(other, Grammar):
            return NotImplemented
        return self._with(other, self.constraints + other.constraints)

    def __or__(self, other: Grammar) -> Grammar:
        """Return the union of two grammars without scores."""
        if not isinstance(other, Grammar):
            return NotImplemented
        return self._with(other, (algebra.union(self.constraints, other.constraints),))

    def __sub__(self, other: Grammar) -> Grammar:
        """Return the difference of two grammars without scores."""
        if not isinstance(other, Grammar):
            return NotImplemented
        return self._with(other, (algebra.difference(self.constraints, other.constraints),))

    def __invert__(self) -> Grammar:
        """Return the complement of a grammar without scores."""
        return Grammar((algebra.complement(self.constraints),), self.labels)

    def _with(self, other: Grammar, constraints: tuple[Constraint, ...]) -> Grammar:
        labels = self.labels if other.labels is None else other.labels
        if self.labels is not None and other.labels is not None:
            labels = {**self.labels, **other.labels}
            if any(labels[tape] != names for tape, names in self.labels.items()):
                raise GrammarError(f"{self} and {other} are bound to different labels")
        return Grammar(constraints, labels)

    def __eq__(self, other: object) -> bool:
        """Return whether two bound grammars give each labelling the same score.

        Unbound grammars are equal if their constraints are; otherwise equality depends on the
        labels, and a GrammarError is raised.
        """
        if not isinstance(other, Grammar):
            return NotImplemented
        if self is other:
            return True
        if self.labels is None or other.labels is None:
            if self.labels is other.labels and self.constraints == other.constraints:
                return True
            raise GrammarError(
                f"whether {self} and {other} are equal depends on the labels; bind both: "
                ".bound(labels)"
            )
        if _unordered(self.labels) != _unordered(other.labels):
            return False
        return self.witness(other) is None

    def __hash__(self) -> int:
        if self.labels is None:
            return hash(self.constraints)
        return hash(_unordered(self.labels))

    def on(self, tape: str) -> Grammar:
        """Return the same grammar on one of several tapes, or on the output of a transducer."""
        return Grammar([algebra.moved(part, tape) for part in self.constraints])

    def support(self) -> Grammar:
        """Return the same grammar without scores."""
        return Grammar((algebra.support(self.constraints),), self.labels)

    def witness(self, other: Grammar) -> Labelling | None:
        """Return a shortest labelling that two bound grammars score differently, or `None`.

        Returns
        -------
        tuple of str, or dict of str to tuple of str
            The labels of the only tape, or of each tape by name.

        Raises
        ------
        GrammarError
            A grammar that is not bound, or is bound to other labels.
        TooLargeError
            The constraints of one grammar have more than 10,000 states together.

        Examples
        --------
        >>> from fstcrf.constraints import at_most, bio
        >>> labels = ["O", "B-NP", "I-NP"]
        >>> bio().bound(labels).witness((bio() & at_most(1, "NP")).bound(labels))
        ('B-NP', 'B-NP')
        """
        sets = self._bound_sets()
        if not isinstance(other, Grammar):
            raise OptionError(f"{other!r} is no grammar to compare with")
        if _unordered(sets) != _unordered(other._bound_sets()):
            raise GrammarError(f"{self} and {other} are bound to different labels")
        return algebra.witness(
            algebra.conjoined(self.constraints, sets),
            algebra.conjoined(other.constraints, sets),
        )

    def example(self) -> Labelling | None:
        """Return a labelling with the fewest tokens that a bound grammar accepts, or `None`."""
        return algebra.example(algebra.conjoined(self.constraints, self._bound_sets()))

    def sample(self, n: int, *, seed: int = 0) -> list[Labelling]:
        """Return random labellings; the steps of a state are equally likely, labellings are not.

        Raises
        ------
        NoPathError
            The grammar accepts no labelling.
        GrammarError
            It is not bound.
        """
        acceptor = algebra.conjoined(self.constraints, self._bound_sets())
        return algebra.sampled(acceptor, whole_number(n, "n"), seed)

    def to_fst(self, arc_type: ArcType = "standard") -> pynini.Fst:
        """Return a bound grammar as a machine of pynini, with costs for weights.

        Label i is symbol i + 1. With several tapes a symbol is ``pos=NN chunk=B-NP``; the last
        tape's label varies fastest.

        Raises
        ------
        GrammarError
            It is not bound.
        MissingDependencyError
            pynini is not installed.
        """
        acceptor = algebra.conjoined(self.constraints, self._bound_sets())
        return automata.to_fst(acceptor, arc_type)

    def _bound_sets(self) -> LabelSets:
        if self.labels is None:
            raise GrammarError(f"{self} is not bound to labels: bind it with .bound(labels)")
        return self.labels

    def __rmatmul__(self, other: Never) -> Never:
        raise OptionError(
            "a grammar cannot be composed with @: use lattice & grammar to constrain a "
            f"lattice with {self}"
        )

    def __repr__(self) -> str:
        return f"Grammar({' & '.join(part.name for part in self.constraints)})"

    def bind(self, labels: Labels) -> tuple[Acceptor, ...]:
        """Return the acceptors that a labelling over these labels must all satisfy.

        Parameters
        ----------
        labels : sequence of str, or mapping of str to sequence of str
            The label set of the only tape, which is called ``""`` then, or of each tape by name.

        Raises
        ------
        GrammarError
            A name that is neither label nor type; a tape that does not exist, or is not named if
            there are several; a constraint that accepts no labelling.
        """
        sets = label_sets(labels)
        return tuple(acceptor for part in self.constraints for acceptor in part.bind(sets))

    def bound(self, labels: Labels) -> Grammar:
        """Return the grammar bound to label sets, as `accepts` and `score` need it."""
        return Grammar(self.constraints, labels)

    def draw(
        self, path: str | os.PathLike[str] | None = None, *, labels: Labels | None = None
    ) -> str:
        """Return a picture of its automata as SVG, one above the other.

        It is made by graphviz if installed, else by fstcrf. States run from left to right; the
        start is dark; two rings mark states in which a sentence may end. Labels between the same
        two states share an arc; if these are most labels, the arc names the missing ones.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to which the picture is also written.
        labels : sequence of str, or mapping of str to sequence of str, optional
            Label sets to bind it to; its own ones if absent.

        Raises
        ------
        GrammarError
            The grammar is not bound and no labels are given; errors as for `bind`.
        TooLargeError
            An automaton with too many arcs for a picture.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written, or graphviz fails.
        """
        sets = self.labels if labels is None else labels
        if sets is None:
            raise GrammarError(f"{self} is not bound to labels: pass them, .draw(labels=...)")
        return files.write_picture(pictures.acceptors_picture(self.bind(sets), str(self)), path)

    def accepts(self, labels: Labels) -> bool:
        """Return whether a bound grammar accepts a labelling; errors as for `score`."""
        return self.score(labels) > -np.inf

    def score(self, labels: Labels) -> float:
        """Return the natural-log score of a labelling: a sequence, or a dict from tape to sequence.

        It is 0 under hard grammars, −inf if they reject it.

        Raises
        ------
        GrammarError
            A grammar that is not bound; tapes that it does not read.
        LabelError
            A label that is not in its set; or an argument that is not a list of labels, such as a
            string.
        """
        sets = self._bound_sets()
        by_tape: Mapping[Any, Any] = labels if isinstance(labels, Mapping) else {"": labels}
        if not isinstance(labels, Mapping) and len(sets) == 1:
            by_tape = dict.fromkeys(sets, labels)
        if by_tape.keys() != sets.keys():
            raise GrammarError(
                f"the labelling has the tapes {listed(by_tape)}, but {self} reads {listed(sets)}"
            )
        by_tape = {tape: string_list(row, "label") for tape, row in by_tape.items()}
        for tape, tape_labels in sets.items():
            unknown = next((label for label in by_tape[tape] if label not in tape_labels), None)
            if unknown is not None:
                raise LabelError(f"unknown label {unknown!r}; the labels are {listed(tape_labels)}")
        return sum(
            acceptor.walk(*(by_tape[tape] for tape in acceptor.tapes))
            for acceptor in self.bind(sets)
        )


def _unordered(sets: LabelSets) -> frozenset[tuple[str, frozenset[str]]]:
    return frozenset((tape, frozenset(tape_labels)) for tape, tape_labels in sets.items())


def _unchanged(acceptor: Acceptor, sets: LabelSets) -> tuple[Acceptor, ...]:
    """Return an acceptor unchanged; raise GrammarError for label sets other than its own."""
    if acceptor.tapes == ("",) and len(sets) == 1:
        tape, labels = next(iter(sets.items()))
        if labels != acceptor.labels[0]:
            raise GrammarError(
                f"tape {tape!r} does not have the labels that the grammar was made for"
            )
        return (acceptor if tape == "" else replace(acceptor, tapes=(tape,)),)
    for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
        if sets.get(tape) != labels:
            raise GrammarError(
                f"tape {tape!r} does not have the labels that the grammar was made for"
            )
    return (acceptor,)
