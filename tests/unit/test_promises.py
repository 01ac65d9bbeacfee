"""Promises of SECURITY.md and of the page "Reliability", and the tests that hold them.

Every sentence of the two files either promises something, and then tests are named here, or it
promises nothing. A sentence that is new, or has changed, is in neither list and fails the test.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.ext.foreign import written
from fstcrf.storage import MAPPED_FROM
from tests.support import command
from tests.support.memory import peak

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests/unit/test_promises.py"
CORPUS, CLUSTER = "tests/unit/test_corpus_files.py", "tests/unit/test_cluster.py"
SEARCHES = "tests/unit/test_hyperparameters.py"
PAGE = "docs/reference/reliability.md"

PROMISES: dict[str, dict[str, tuple[str, ...]]] = {
    "SECURITY.md": {
        "A file becomes a model, or an error.": (
            "tests/unit/test_odd_files.py::test_fields",
            "tests/unit/test_odd_files.py::test_arrays",
            "tests/fuzz/test_readers.py::test_mutated_files",
        ),
        "This holds for models of fstcrf": ("tests/fuzz/test_readers.py::test_mutated_files",),
        "**run no code": (
            f"{HERE}::test_no_module_unpickles_or_evaluates",
            f"{HERE}::test_models_open_no_other_file_and_start_nothing",
        ),
        "The library neither unpickles": (f"{HERE}::test_no_module_unpickles_or_evaluates",),
        "If you yourself pickle an object": ("tests/property/test_pickles.py::test_grammars",),
        "**name no other files**": (
            f"{HERE}::test_models_open_no_other_file_and_start_nothing",
        ),
        "Files that a grammar names": (
            "tests/unit/test_grammar_files.py::test_grammars_name_files_below_the_first_one",
            "tests/unit/test_grammar_files.py::test_a_text_names_files_of_the_working_folder",
        ),
        "Grammars open regular files only": (
            "tests/unit/test_grammar_files.py::test_grammars_open_regular_files_alone",
        ),
        "**cost a small multiple": (
            "tests/fuzz/test_readers.py::test_mutated_files",
            "tests/unit/test_model_file.py::test_rows_without_weights_take_no_place",
        ),
        "The exception is a model of CRFsuite": (
            f"{HERE}::test_a_model_of_crfsuite_has_a_weight_for_each_pair",
            "tests/unit/test_compat_trainer.py::test_what_is_written_can_be_opened",
        ),
        "`budget=` of searches": (
            "tests/oracle/test_lazy.py::test_the_worst_case_ends_within_its_budget",
            "tests/unit/test_grammar_files.py::test_machines_on_the_way_are_bounded",
            "tests/laws/test_work.py::test_what_is_too_large_is_refused_soon_before_memory_is_taken",
        ),
        "A checksum in a file finds damage": (
            "tests/unit/test_storage.py::test_every_byte_counts",
        ),
        "The commands print them unchanged": (
            f"{HERE}::test_commands_write_labels_as_they_are",
        ),
        "In HTML (notebooks": (
            "tests/unit/test_display.py::test_a_lattice_is_a_heat_map_with_its_best_path",
            "tests/unit/test_display.py::test_tables_cut_and_escape",
            "tests/unit/test_inspector.py::test_the_page_and_its_answers",
        ),
    },
    PAGE: {
        "Each has tests, named": (
            f"{HERE}::test_every_sentence_is_held_by_tests_or_promises_nothing",
            f"{HERE}::test_the_tables_name_tests_that_exist",
        ),
        "The relative error of log Z": (
            "tests/oracle/test_numbers.py::test_sums_and_best_paths_of_any_size",
            "tests/property/test_magnitudes.py::test_batches",
        ),
        "The error of a probability": (
            "tests/oracle/test_numbers.py::test_sums_and_best_paths_of_any_size",
        ),
        "A constant that all potentials share": (
            "tests/oracle/test_numbers.py::test_sums_and_best_paths_of_any_size",
            "tests/oracle/test_kernel_domains.py::test_states_that_never_meet",
        ),
        "Tropical machines with several runs": (
            "tests/laws/test_tropical.py",
            "tests/oracle/test_competitors.py",
        ),
        "Memory does not grow with the number": (
            "tests/unit/test_memory_flat.py::test_memory_over_many_sentences_is_flat",
            "tests/unit/test_memory_flat.py::test_memory_over_single_sentences_is_flat",
            "tests/unit/test_memory_flat.py::test_models_that_are_dropped_leave_nothing",
        ),
        "Compiled grammars and transducers are cached": (
            "tests/unit/test_caches.py::test_few_large_values_are_kept_and_many_small_ones",
        ),
        "Any number of threads or workers": (
            "tests/unit/test_model_training.py::test_threads_change_no_bit",
            "tests/unit/test_lattice_batches.py::test_threads_change_no_bit",
            "tests/unit/test_model_resume.py::test_resume",
        ),
        "These results do not depend on": (
            "tests/unit/test_numpy_bits.py::test_what_is_promised_depends_on_no_numpy",
        ),
        "Several threads may call one tagger": (
            "tests/unit/test_threads.py::test_first_calls_are_alike",
            "tests/unit/test_threads.py::test_first_calls_tag_alike",
            "tests/unit/test_threads.py::test_the_page_answers_threads_alike",
        ),
        "A `FeedbackLearner` serialises": (
            "tests/unit/test_threads.py::test_learners_take_turns",
            "tests/unit/test_feedback_learner.py::test_threads_wait_for_each_other",
        ),
        "The variant of the kernel is selected": (
            "tests/unit/test_threads.py::test_the_variant_is_chosen_before_there_are_threads",
        ),
        "A forked child works": (
            "tests/unit/test_forks.py::test_children_answer",
            "tests/unit/test_feedback_learner.py::test_children_of_the_process_leave_it_alone",
        ),
        "Ctrl-C ends a call": (
            "tests/unit/test_interrupts.py::test_ctrl_c_ends_a_long_call",
        ),
        "Transducers and relations that are too large": (
            "tests/laws/test_work.py::test_what_is_too_large_is_refused_soon_before_memory_is_taken",
        ),
        "A message about an unknown name": (
            "tests/unit/test_arguments.py::test_names_are_compared_within_bounds",
            "tests/laws/test_work.py::test_long_labels_are_not_compared",
        ),
        "A file appears completely": (
            "tests/faults/test_disks.py::test_some_moments",
            "tests/faults/test_disks.py::test_lost_power_shows_what_was_not_synced",
        ),
        "A full disk, Ctrl-C": (
            "tests/faults/test_disks.py::test_no_place",
            "tests/faults/test_disks.py::test_steps_fail_and_kill",
            "tests/unit/test_storage.py::test_what_fails_leaves_the_old_file",
        ),
        "The next writer removes": (
            f"{CORPUS}::test_what_killed_writers_left_is_swept_and_nothing_else",
        ),
        "A tagger of 64 MB or more": (
            f"{HERE}::test_the_size_from_which_files_are_mapped",
            "tests/unit/test_storage.py::test_large_files_are_mapped",
            "tests/unit/test_storage.py::test_a_file_may_be_replaced_while_it_is_mapped",
        ),
        "`fstcrf.load(path, mmap=False)`": (
            "tests/unit/test_storage.py::test_a_file_that_was_read_may_be_changed_in_place",
        ),
        "Records of tagged files": (
            f"{CLUSTER}::test_a_line_of_which_the_end_reached_the_disk_first_does_not_count",
            f"{SEARCHES}::test_a_journal_of_which_only_a_part_of_the_first_line_is_there",
        ),
        "A model file cannot run code": (f"{HERE}::test_no_module_unpickles_or_evaluates",),
        "Loading checks checksum": (
            "tests/unit/test_storage.py::test_every_byte_counts",
            "tests/unit/test_storage.py::test_foreign_files",
            "tests/unit/test_odd_files.py::test_arrays",
        ),
        "Loading costs at most": ("tests/fuzz/test_readers.py::test_mutated_files",),
        "The page is protected": ("tests/unit/test_inspector.py::test_strangers_are_refused",),
        "It binds to this machine": (
            "tests/unit/test_inspector.py::test_strangers_are_refused",
            "tests/unit/test_inspector.py::test_a_token_is_asked_for",
            "tests/unit/test_inspector.py::test_bad_questions",
            "tests/unit/test_inspector.py::test_too_many_tokens",
            "tests/unit/test_inspector.py::test_bad_input_of_the_command",
        ),
    },
}  # fmt: skip
"""By how a sentence begins, the tests that hold it."""

NOTHING: dict[str, tuple[str, ...]] = {
    "SECURITY.md": (
        "Only the latest release", "Before 1.0,", "Please report", "Name the version",
        "The changelog lists", "They:", "A file that costs more", "**may take long",
        "A tagger of a million", "Limits:", "They are strings.", "[Reliability]",
    ),
    PAGE: (
        "This page lists", "**Precision.", "The *magnitude*", "**Memory.", "**Equal bits.",
        "This holds on one machine", "These results depend on it", "**Refusals.",
        "Import modules before", "A single NumPy call", "See `SECURITY.md`", "It is not protected",
        "Measured by `python -m tests.laws", "Measured by `python -m tests.unit",
    ),
}  # fmt: skip
"""How sentences begin that give advice, explain, or say what is not promised."""


def sentences(name: str) -> Iterator[str]:
    """Yield the sentences of a page, without headings, tables and blocks of code."""
    text = (ROOT / name).read_text("utf-8")
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=[-#|] ?)", text):
        line = " ".join(block.split()).removeprefix("- ")
        if line and line[0] not in "#|":
            yield from re.split(r"(?<=[.:?])\*{0,2} (?=[A-Z*`])", line)


@pytest.mark.parametrize("name", PROMISES)
def test_every_sentence_is_held_by_tests_or_promises_nothing(name: str) -> None:
    known = [*PROMISES[name], *NOTHING[name]]
    met = {one: [key for key in known if one.startswith(key)] for one in sentences(name)}
    assert {one: keys for one, keys in met.items() if len(keys) != 1} == {}
    assert sorted(known) == sorted(key for keys in met.values() for key in keys)


def exists(test: str) -> bool:
    file, _, function = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    return not function or f"\ndef {function}(" in path.read_text("utf-8")


@pytest.mark.parametrize("name", PROMISES)
def test_the_tests_of_promises_exist(name: str) -> None:
    tests = {test for several in PROMISES[name].values() for test in several}
    assert sorted(test for test in tests if not exists(test)) == []
    assert all(PROMISES[name].values())


def test_the_tables_name_tests_that_exist() -> None:
    rows = [line for line in (ROOT / PAGE).read_text("utf-8").splitlines() if line[:2] == "| "]
    promises = [row for row in rows if not row.startswith(("| promise |", "| --- |"))]
    assert len(promises) > 30
    for row in promises:
        named = re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", row)
        assert named or "make sanitize" in row, row
        assert [test for test in named if not exists(test)] == [], row


# --- Promises that no other test holds ------------------------------------------------------------

CODE = {"pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "eval", "exec", "compile"}
MEANT = {
    "ext/cluster/dask.py: pickle.loads",  # what Dask itself sent
    "cli/main.py: exec",  # of an empty text
}


def test_no_module_unpickles_or_evaluates() -> None:
    found = set()
    for path in sorted((ROOT / "fstcrf").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in CODE:
                found.add(f"{path.relative_to(ROOT / 'fstcrf')}: {ast.unparse(node.func)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", path
    assert found == MEANT


_WATCHED = """
import json, sys
import fstcrf
opened = []

def hook(event, given):
    if event in ("open", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "exec",
                 "socket.connect", "pickle.find_class", "os.remove", "os.rename"):
        opened.append([event, str(given[0])])

paths = sys.argv[1:]
for path in paths:  # what is imported and kept at the first call
    fstcrf.load(path)
sys.addaudithook(hook)
for path in paths:
    fstcrf.load(path)
print(json.dumps(opened))
"""
TEXT = [{"word": ["a", "b", "c"], "y": ["B-A", "I-A", "O"], "z": ["P", "Q", "P"]}]
WORDS = "U:%x[0,word]\nB\n"


def test_models_open_no_other_file_and_start_nothing(tmp_path: Path) -> None:
    one, two = (fstcrf.CRF.train(TEXT, y, WORDS, tape=y, max_iterations=2) for y in "yz")
    made: dict[str, Any] = {
        "crf": one,
        "joint": fstcrf.compose(one, two),
        "segments": fstcrf.SegmentCRF.train(TEXT, "y", WORDS, max_iterations=2),
        "literal": fstcrf.CRF.train([[["a"], ["b"]]], [["A", "B"]], max_iterations=2),
    }
    for name, model in made.items():
        model.save(tmp_path / name)
    (tmp_path / "foreign").write_bytes(written(made["literal"], "crfsuite"))
    paths = [str(tmp_path / name) for name in (*made, "foreign")]
    found = subprocess.run(
        [sys.executable, "-c", _WATCHED, *paths],
        capture_output=True, check=True, text=True, cwd=ROOT,
    )  # fmt: skip
    events = json.loads(found.stdout)
    assert {event for event, _ in events} == {"open"}
    assert {path for _, path in events} == set(paths)


def test_a_model_of_crfsuite_has_a_weight_for_each_pair(tmp_path: Path) -> None:
    size = 1_000
    items = [[[f"w={i}"], ["w=x"]] for i in range(size)]
    labels = [[f"L{i}", "L0"] for i in range(size)]
    model = fstcrf.CRF.train(items, labels, max_iterations=1)
    path = tmp_path / "m.crfsuite"
    path.write_bytes(written(model, "crfsuite"))
    fstcrf.load(path)
    assert peak(fstcrf.load, path) < 60e6


def test_commands_write_labels_as_they_are(tmp_path: Path) -> None:
    label = "\x1b[31mX"
    rows = [{"word": ["a", "b"], "y": [label, "O"]}] * 3
    fstcrf.CRF.train(rows, "y", WORDS, max_iterations=20).save(tmp_path / "m")
    text = tmp_path / "t.txt"
    text.write_text("a\nb\n\n")
    assert f"a\t{label}" in command.done("tag", tmp_path / "m", text).replace(" ", "\t")


def test_the_size_from_which_files_are_mapped() -> None:
    assert MAPPED_FROM == 64_000_000
