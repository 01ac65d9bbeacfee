"""Constraints on the labels of a sentence, as grammars: ``tagger & at_most(1, "SPEAKER")``.

A *name* in them is

- a label of the set: it occurs at every token that has it;
- otherwise a type: it occurs at the beginning of each span of the type;
- ``label("B-.*")``, a class: the labels that the regular expression matches as a whole;
- ``span("NP")``: the spans of a type, even if a label is called ``NP``;
- a list of these: each of them occurs.

Spans are read by conlleval's rules, which understand all schemes of B, I, E, S (L, U) and repair
malformed labels. ``scheme=`` selects another scheme; with `None` there are no types.

All constraints are hard, or soft with ``weight=``: then each violation adds this natural-log score,
which must be finite. ``tape=`` selects the tape; it is needed if there are several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fstcrf.machines.grammar import Grammar, constraint
from fstcrf.machines.grammar.constraint import Neighbours, RuleOptions
from fstcrf.machines.grammar.labels import ANY, Names, SchemeName, label, span
from fstcrf.text.corpus.schemes import Scheme

__all__ = [
    "ANY",
    "at_least",
    "at_most",
    "before",
    "bilou",
    "bio",
    "bioes",
    "bmes",
    "bmewo",
    "contiguous",
    "end_with",
    "exactly",
    "if_present",
    "iob1",
    "label",
    "neighbours",
    "never",
    "pairs",
    "requires",
    "span",
    "start_with",
    "tagging_scheme",
]

# --- How often -----------------------------------------------------------------------------------


def at_most(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """At most k occurrences; if soft, each further one is a violation.

    Examples
    --------
    >>> once = at_most(1, "NP").bound(["O", "B-NP", "I-NP"])
    >>> once.accepts(["B-NP", "I-NP", "O"]), once.accepts(["B-NP", "O", "B-NP"])
    (True, False)
    """
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.counted("at_most", k, name, options=options)])


def at_least(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """At least k occurrences; if soft, each missing one is a violation."""
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.counted("at_least", k, name, options=options)])


def exactly(
    k: int,
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Exactly k occurrences; if soft, each further or missing one is a violation."""
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.counted("exactly", k, name, options=options)])


def contiguous(
    labels: Names = ANY,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Each of these labels in at most one run of tokens, each type in at most one span.

    A span label means its type here: ``contiguous(["O", "B-NP", "I-NP"])`` is one span of NP. ``O``
    never counts. Each label, or type, is a separate acceptor. If soft, each run after the first is
    a violation. With ``scheme=None``, ``B-NP`` is a label like any other.
    """
    return Grammar([constraint.contiguous(labels, options=RuleOptions(tape, scheme, weight))])


# --- Where, in which order -----------------------------------------------------------------------


def before(
    first: Names,
    second: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """No occurrence of the first after one of the second; either may be absent.

    If soft, each later occurrence of the first is a violation.
    """
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.about("before", first, second, options=options)])


def requires(
    name: Names,
    other: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """If the first name occurs in a sentence, the second one must occur, before or after it.

    If soft, a sentence with the first and without the other is one violation.
    """
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.about("requires", name, other, options=options)])


def if_present(
    name: Names,
    then: Names | Grammar,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """If a name occurs in a sentence, a further condition must hold for the sentence.

    Parameters
    ----------
    name : names
        The names of the condition: labels, types.
    then : names or Grammar
        Names that must then occur, or a hard grammar that must then hold. It may read another tape.
    tape, scheme
        The tape of the name, and the scheme of its labels. They also apply to names in `then`.
    weight : float, optional
        Natural-log score of a sentence that violates it. Violations are forbidden if absent.

    Raises
    ------
    GrammarError
        When bound: a soft grammar.

    Examples
    --------
    >>> rule = if_present("X", before("A", "B")).bound(["A", "B", "X"])
    >>> rule.accepts(["B", "A"]), rule.accepts(["B", "A", "X"])
    (True, False)
    """
    parts = then.constraints if isinstance(then, Grammar) else (then,)
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.if_present(name, *parts, options=options)])


def never(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """No token has such a label, or a label of such a type; if soft, each one is a violation."""
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.about("never", name, options=options)])


def start_with(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Begin with such a label, or with a label of such a type."""
    return Grammar(
        [constraint.about("start_with", name, options=RuleOptions(tape, scheme, weight))]
    )


def end_with(
    name: Names,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """End with such a label, or with a label of such a type."""
    options = RuleOptions(tape, scheme, weight)
    return Grammar([constraint.about("end_with", name, options=options)])


# --- Which labels may touch ----------------------------------------------------------------------
# If soft, each illegal succession is a violation; the start and the end count as neighbours.


def tagging_scheme(
    scheme: str | Scheme, *, tape: str | None = None, weight: float | None = None
) -> Grammar:
    """Only successions of labels that a tagging scheme allows.

    Parameters
    ----------
    scheme : str or Scheme
        Its name: ``io``, ``iob1``, ``iob2`` (``bio``), ``bioes``, ``bilou``, ``bmes``, ``bmewo``.
    tape, weight
        As for all constraints.

    Raises
    ------
    OptionError
        No such scheme; a weight that is not finite.

    Examples
    --------
    >>> legal = tagging_scheme("bio").bound(["O", "B-NP", "I-NP"])
    >>> legal.accepts(["B-NP", "I-NP"]), legal.accepts(["O", "I-NP"])
    (True, False)
    """
    return Grammar([constraint.tagging_scheme(scheme, options=RuleOptions(tape, weight=weight))])


def bio(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """IOB2: B begins every span, I continues one of its type."""
    return tagging_scheme("iob2", tape=tape, weight=weight)


def iob1(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """IOB1: I everywhere, B only if a span follows one of the same type directly."""
    return tagging_scheme("iob1", tape=tape, weight=weight)


def bioes(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BIOES: a span of several tokens begins with B and ends with E; a span of one token is S."""
    return tagging_scheme("bioes", tape=tape, weight=weight)


def bilou(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BILOU: as BIOES, with L for E and U for S."""
    return tagging_scheme("bilou", tape=tape, weight=weight)


def bmes(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BMES: as BIOES, with M for I."""
    return tagging_scheme("bmes", tape=tape, weight=weight)


def bmewo(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BMEWO: as BIOES, with M for I and W for S."""
    return tagging_scheme("bmewo", tape=tape, weight=weight)


def neighbours(
    allowed: Neighbours, *, tape: str | None = None, weight: float | None = None
) -> Grammar:
    """Only these labels may be neighbours.

    Parameters
    ----------
    allowed : iterable of pairs, mapping, or callable
        Pairs (label, next label): all legal neighbours. `None` as first element is the start, as
        second element the end; without such a pair, every label may begin (end) a sentence. A
        mapping from a label to its legal successor, or several, restricts only its keys. A
        callable is called for every pair, including `None`. Pickle stores its results for the
        labels seen so far, which works for lambdas; for other labels, it needs a function that is
        defined with ``def`` in a module.
    tape, weight
        As for all constraints.

    Examples
    --------
    >>> rule = neighbours({"stop": [None]}).bound(["go", "stop"])  # nothing follows a stop
    >>> rule.accepts(["go", "stop"]), rule.accepts(["stop", "go"])
    (True, False)
    """
    return Grammar([constraint.neighbours(allowed, options=RuleOptions(tape, weight=weight))])


# --- Several tapes -------------------------------------------------------------------------------


def pairs(
    allowed: Mapping[str, str | Iterable[str]] | Iterable[tuple[str, ...]],
    tapes: Sequence[str],
    *,
    weight: float | None = None,
) -> Grammar:
    """Only these combinations of labels of several tapes at one token.

    Parameters
    ----------
    allowed : iterable of tuples, or mapping
        Tuples with a label of each tape: all legal combinations. With two tapes also a mapping from
        a label of the first to a label of the second, or to several; other labels of the first are
        unrestricted.
    tapes : sequence of str
        The names of the tapes.
    weight : float, optional
        Natural-log score of each token with other labels. Violations are forbidden if absent.

    Raises
    ------
    OptionError
        Fewer than two tapes; a mapping for more than two; tuples of another length; a string in the
        place of a tuple.
    GrammarError
        When bound: a tape or a label that does not exist.

    Examples
    --------
    >>> labels = {"pos": ["NN", "VB"], "chunk": ["B-NP", "B-VP"]}
    >>> agree = pairs({"VB": ["B-VP"]}, ("pos", "chunk")).bound(labels)
    >>> agree.accepts({"pos": ["VB"], "chunk": ["B-NP"]})
    False
    """
    return Grammar([constraint.pairs(allowed, tapes, weight=weight)])
