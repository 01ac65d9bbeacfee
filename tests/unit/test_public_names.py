"""The public names of the main classes: a new one is a decision, made here."""

from __future__ import annotations

import pytest

import fstcrf
from fstcrf.lattices import Answer, Lattice, Lattices, Path
from fstcrf.taggers import CRF, Composition, JointCRF
from fstcrf.taggers.product import Product

TAGGER = """
    constrained decode label_sets marginals_all nbest_all paths_all tag tag_all tag_column
    tag_columns tapes without_grammar
"""
COMPOSABLE = f"{TAGGER} lattice probability sample save score"
COMPOSITION = f"""
    {COMPOSABLE} explain labels lattices plan tape tune_weights
    taggers weights conjuncts normalize
"""
NAMES: dict[type, str] = {
    Composition: COMPOSITION,
    JointCRF: f"""
        {COMPOSITION} budget cascade given maps relabellings renamed search with_features
        with_weights
    """,
    Product: f"{COMPOSITION} cascade with_features with_weights",
    CRF: f"""
        {COMPOSABLE} columns explain index labels load potentials reads record renamed space tables
        tape theta to_fst top_features topology train with_features
    """,
    Lattice: """
        arc_marginals arc_probabilities best confidence constrained dense draw
        entropy expectations expected from_arrays from_ctc from_fst from_machine
        from_paths from_segments from_spans gradient labels length lengths
        log_partition machine marginals max_marginals minimum_risk nbest number on
        plan probability probable_spans restrict sample scale score segmented sizes
        span_probabilities span_probability standard_error string_log_partition
        string_probability strings tapes to_att to_fst weighted with_tokens
        without_grammar
    """,
    Lattices: """
        answer arc_marginals best constrained count decode entropy from_arrays
        gradient index log_partition marginals max_marginals minimum_risk nbest on
        posterior probability probable_spans restrict rows sample scale score select
        span_probabilities weighted width without_grammar
    """,
    fstcrf.Transducer: """
        by_name closure determinize equivalent example final from_arrays from_fst
        from_grammar from_pairs from_table from_text input input_symbols invert
        is_acceptor lm minimize named on output output_symbols project push reads
        remove_epsilon replace reverse sample score semiring shortest source structure
        support tape target to_att to_fst with_failures with_scores witness
    """,
    fstcrf.Grammar: """
        accepts bind bound draw example from_acceptor from_arrays from_file from_fst
        from_text on sample score shipped support to_fst witness
    """,
    Answer: """
        column confidence flat ids labels marginals of_paths paths posterior probabilities
        ranked span_probabilities spans unproven with_part with_posterior
    """,
    Path: """
        arcs bound exact labels places positions probability score segments tapes
    """,
}


def names(owner: type) -> set[str]:
    """Return the public attributes of a class, annotated fields included."""
    declared = {name for part in owner.__mro__ for name in vars(part).get("__annotations__", ())}
    found = declared | set(dir(owner))
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("owner", NAMES, ids=lambda owner: owner.__name__)
def test_public_names_of_classes(owner: type) -> None:
    wanted = set(NAMES[owner].split())
    assert names(owner) - wanted == set(), "new public names: private ones begin with _"
    assert wanted - names(owner) == set(), "public names that are gone: CHANGELOG.md says so"


def test_public_names_of_the_package() -> None:
    assert len(fstcrf.__all__) == 42
