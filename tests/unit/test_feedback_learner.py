"""A learner that is told how good its proposals were, over days and deaths."""

from __future__ import annotations

import os
import pickle
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, ModelFileError, NumericError, OptionError, RecoveryWarning
from fstcrf.ext.feedback import Aim, FeedbackLearner, Rule, completed, untrained
from fstcrf.ext.feedback.folder import Journal, LearnerSettings, State
from fstcrf.taggers import CRF
from tests.support.interrupts import interrupt

SENTENCE = {"word": ["in", "the", "dark", "wood"]}
SENTENCES = [SENTENCE, {"word": ["wood"]}, {"word": ["the", "wood", "the"]}]
LABELS = ("O", "B-X", "I-X")
TEMPLATE = "U:%x[0,word]\nU:%x[-1,word]\nB"
RULES = [
    Rule(rate=0.3),
    Rule(rate=0.3, decay=0.1),
    Rule("momentum", rate=0.1, decay=0.02),
    Rule("adadelta", rate=0.5),
]
AIMS = [
    Aim(control="mean"),
    Aim("preference"),
    Aim("cross-entropy", clip=0.1),
    Aim("logistic", beta=0.5),
]


@pytest.fixture
def start() -> CRF:
    return untrained(SENTENCES, LABELS, TEMPLATE, scheme="iob2", tape="np")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "learner"


@pytest.fixture
def learner(folder: Path, start: CRF) -> Iterator[FeedbackLearner]:
    with FeedbackLearner.create(folder, start) as one:
        yield one


def weights(one: FeedbackLearner) -> Floats:
    return one.model().theta


def told(one: FeedbackLearner, times: int) -> None:
    for k in range(times):
        proposal = one.propose(SENTENCES[k % 3])
        one.feedback(proposal, 0.25 * (k % 5))


def left(folder: Path, start: CRF, times: int) -> Path:
    """A learner that was told some rewards and closed: its journal."""
    one = FeedbackLearner.create(folder, start)
    told(one, times)
    one.close()
    return folder / "journal-0"


def rewards(folder: Path) -> int:
    with FeedbackLearner.open(folder) as one:
        return one.rewards


def refused(folder: Path, match: str) -> None:
    with pytest.raises(ModelFileError, match=match):
        FeedbackLearner.open(folder)


def test_it_learns_what_is_rewarded(learner: FeedbackLearner) -> None:
    wanted = ("O", "B-X", "I-X", "I-X")
    for _ in range(400):
        proposal = learner.propose(SENTENCE)
        assert len(proposal.labels) == 4
        assert 0.0 < proposal.probability <= 1.0
        right = sum(a == b for a, b in zip(proposal.labels, wanted, strict=True))
        learner.feedback(proposal, right / 4)
    assert learner.model().tag(SENTENCE) == list(wanted)
    assert learner.rewards == 400
    assert learner.mean_reward > 0.5
    assert learner.pending == ()


def test_logistic_pairs(folder: Path, start: CRF) -> None:
    """Told which of two is better, it learns; its probability is that the first one is."""
    wanted = ("O", "B-X", "I-X", "I-X")
    aim, rule = Aim("logistic"), Rule(rate=0.5)
    with FeedbackLearner.create(folder, start, aim=aim, rule=rule) as one:
        assert one.propose(SENTENCE).probability == 0.5
        for _ in range(300):
            proposal = one.propose(SENTENCE)
            assert 0.0 < proposal.probability < 1.0
            first, second = (
                sum(a == b for a, b in zip(labels, wanted, strict=True))
                for labels in (proposal.labels, proposal.other)
            )
            one.feedback(proposal, 0.5 * (1 + (first > second) - (first < second)))
        assert one.model().tag(SENTENCE) == list(wanted)


def test_settings_that_an_older_version_wrote() -> None:
    """What was not there yet is as it was."""
    aim = {"objective": "preference", "control": "mean", "clip": 0.0, "temperature": 1.0}
    rule = {"name": "constant", "rate": 0.1}
    text = msgspec.json.encode({"aim": aim, "rule": rule, "seed": 3})
    known = msgspec.json.decode(text, type=LearnerSettings)
    assert known == LearnerSettings(Aim("preference", control="mean"), Rule(rate=0.1), 3)


# --- Opened again ---------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.objective)
def test_another_process_goes_on(folder: Path, start: CRF, aim: Aim, rule: Rule) -> None:
    one = FeedbackLearner.create(folder, start, aim=aim, rule=rule, seed=7)
    told(one, 20)
    late = one.propose(SENTENCE)
    before, rewards = weights(one), one.rewards
    one.close()
    for again in range(3):
        with FeedbackLearner.open(folder) as two:
            assert two.settings == one.settings
            np.testing.assert_allclose(weights(two), before, rtol=1e-12)
            assert two.rewards == rewards + again
            assert two.mean_reward == pytest.approx(one.mean_reward, abs=0.1)
            assert late.id in two.pending
            told(two, 1)
            before = weights(two)
            if again == 1:
                two.save()
    with FeedbackLearner.open(folder) as two:
        two.feedback(late, 0.5)  # as an answer, or by its number
        assert late.id not in two.pending


def test_the_same_samples_whether_or_not_it_was_closed(tmp_path: Path, start: CRF) -> None:
    first = FeedbackLearner.create(tmp_path / "a", start, seed=3)
    second = FeedbackLearner.create(tmp_path / "b", start, seed=3)
    for k in range(12):
        if k % 4 == 3:
            second.save()
        if k % 3 == 2:
            second.close()
            second = FeedbackLearner.open(tmp_path / "b")
        proposals = [one.propose(SENTENCE) for one in (first, second)]
        assert proposals[0] == proposals[1]
        for one in (first, second):
            one.feedback(proposals[0].id, 0.1 * (k % 10))
    np.testing.assert_array_equal(weights(first), weights(second))


def test_a_step_follows_the_weights_that_proposed(tmp_path: Path, start: CRF) -> None:
    """An answer that comes late leads where it would have led at once."""
    now = FeedbackLearner.create(tmp_path / "a", start)
    late = FeedbackLearner.create(tmp_path / "b", start)
    old = [one.propose(SENTENCE) for one in (now, late)]
    now.feedback(old[0], 0.0)
    moved = weights(now)
    late.feedback(late.propose({"word": ["wood"]}), 0.3)
    before = weights(late)
    late.feedback(old[1], 0.0)
    np.testing.assert_allclose(weights(late) - before, moved, atol=1e-15)


def test_late_answers_are_as_good_as_early_ones(
    tmp_path: Path, start: CRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel was given is kept for a few proposals only; the others are read again."""
    reached = []
    for name, recent in (("some", 2), ("all", 100)):
        monkeypatch.setattr("fstcrf.ext.feedback.learner._RECENT", recent)
        with FeedbackLearner.create(tmp_path / name, start, rule=Rule(rate=0.3), seed=1) as one:
            made = one.propose_all([SENTENCE] * 7)
            assert len(one._recent) == min(recent, 7)
            for k in (3, 6, 0, 5):
                one.feedback(made[k], 0.25 * (k % 3))
            one.withdraw(made[4])
            assert set(one._recent) <= {1, 2}
            one.feedback(2, 1.0)
            reached.append(weights(one))
    np.testing.assert_array_equal(reached[0], reached[1])


@pytest.mark.parametrize("seed", [-1, 1 << 128])
def test_seeds(folder: Path, start: CRF, seed: int) -> None:
    with pytest.raises(OptionError, match=r"seed is .*, expected a whole number from 0"):
        FeedbackLearner.create(folder, start, seed=seed)
    FeedbackLearner.create(folder, start).close()


def test_saving_leaves_one_state(learner: FeedbackLearner, folder: Path) -> None:
    told(learner, 5)
    for _ in range(3):
        learner.save()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["journal-3", "lock", "model.fstcrf", "state-3"]


# --- Deaths ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_a_journal_cut_at_any_byte(folder: Path, start: CRF, every: int) -> None:
    one = FeedbackLearner.create(folder, start)
    empty = (folder / "journal-0").stat().st_size
    told(one, 3)
    one.close()
    path = folder / "journal-0"
    whole = path.read_bytes()
    counts = []
    path.write_bytes(whole[: empty - 1])  # it was whole before there was a state
    refused(folder, "not a journal")
    for size in sorted({*range(empty, len(whole) - 1, every), len(whole) - 1, len(whole)}):
        path.write_bytes(whole[:size])
        with FeedbackLearner.open(folder, sync="process") as two:
            counts.append(two.rewards)
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 3
    assert counts[-2] == 2


def test_zeros_behind_a_journal_are_cut_off(folder: Path, start: CRF) -> None:
    with left(folder, start, 3).open("ab") as file:
        file.write(bytes(5000))
    with FeedbackLearner.open(folder) as two:
        assert two.rewards == 3
        told(two, 1)
    assert rewards(folder) == 4


def last_frame(path: Path, before: int) -> list[tuple[str, bytes]]:
    """What a machine that stops may leave of what was appended behind `before` bytes."""
    whole = path.read_bytes()
    cases = [("cut", whole[: (before + len(whole)) // 2])]
    for start in range(before, len(whole), 512):
        torn = bytearray(whole)
        torn[start : start + 512] = bytes(len(torn[start : start + 512]))
        cases.append((f"zeros at {start - before}", bytes(torn)))
    return cases


def test_a_torn_end_is_dropped_with_a_warning(folder: Path, start: CRF) -> None:
    """Blocks of one append reach the disk in any order; nobody was told that they are there."""
    one = FeedbackLearner.create(folder, start)
    told(one, 2)
    path = folder / "journal-0"
    before = path.stat().st_size
    one.propose_all([SENTENCE] * 20)  # one append of many records
    one.close()
    cases = last_frame(path, before)
    assert len(cases) > 5
    for name, data in cases:
        path.write_bytes(data)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with FeedbackLearner.open(folder, sync="process") as two:
                assert (two.rewards, len(two.pending)) == (2, 0), name
        assert [w.category for w in said] == ([] if name == "cut" else [RecoveryWarning]), name
        assert path.stat().st_size == before


def test_a_damaged_middle_is_refused_wherever_it_is(folder: Path, start: CRF) -> None:
    one = FeedbackLearner.create(folder, start)
    empty = (folder / "journal-0").stat().st_size
    one.propose_all([SENTENCE] * 5)
    end = (folder / "journal-0").stat().st_size
    told(one, 1)
    one.close()
    path = folder / "journal-0"
    whole = path.read_bytes()
    for place in range(empty, end, 7):
        data = bytearray(whole)
        data[place] ^= 255
        path.write_bytes(data)
        refused(folder, f"journal-0: damaged at byte {empty}")


@pytest.mark.parametrize("marks", [200, 2000])
def test_frames_within_frames_are_not_summed_again_and_again(
    folder: Path, start: CRF, monkeypatch: pytest.MonkeyPatch, marks: int
) -> None:
    """As somebody may write them: each mark claims all that follows, and no checksum is right."""
    FeedbackLearner.create(folder, start).close()
    mark, size = b"\xf5frame\xf5\n", 16 * marks
    rest = b"".join(
        mark + struct.pack("<II", size - 16 * (k + 1), 1) if k < marks - 1 else bytes(16)
        for k in range(marks)
    )
    with (folder / "journal-0").open("ab") as file:
        file.write(rest)
    summed, crc32 = 0, zlib.crc32

    def counted(data: bytes) -> int:
        nonlocal summed
        summed += len(data)
        return crc32(data)

    monkeypatch.setattr("fstcrf.ext.feedback.folder.zlib.crc32", counted)
    with pytest.raises(ModelFileError, match="journal-0: damaged"):
        Journal(folder / "journal-0")
    assert len(rest) < summed <= 12 * len(rest)


@pytest.mark.parametrize("content", ["9301", "05", "9105", "91c401ff", "91c40291a1"])
def test_frames_that_are_whole_and_make_no_sense(folder: Path, start: CRF, content: str) -> None:
    """As somebody may write them: their checksums are right."""
    FeedbackLearner.create(folder, start).close()
    with (folder / "journal-0").open("ab") as file:
        for record in (bytes.fromhex(content), b"\x90"):
            file.write(b"\xf5frame\xf5\n" + struct.pack("<II", len(record), zlib.crc32(record)))
            file.write(record)
    refused(folder, "journal-0: ")


def test_a_proposal_with_labels_that_are_not_there(folder: Path, start: CRF) -> None:
    one = FeedbackLearner.create(folder, start)
    one.propose(SENTENCE)
    one.save()
    kept = one._state.pending[0]
    one._state.pending[0] = msgspec.structs.replace(
        kept, path=np.full(4, 99, dtype="<i4").tobytes()
    )
    one.save()
    one.close()
    refused(folder, "proposal 0 cannot be read")


def test_journals_of_the_first_format_go_on(folder: Path, start: CRF) -> None:
    path = left(folder, start, 2)
    with Journal(path) as journal:
        records = list(journal.records())
    frames = (struct.pack("<II", len(r), zlib.crc32(r)) + r for r in records)
    path.write_bytes(b"fstcrf-feedback-journal 1\n" + b"".join(frames))
    with FeedbackLearner.open(folder) as two:
        assert two.rewards == 2
        told(two, 1)
    assert path.read_bytes().startswith(b"fstcrf-feedback-journal 1\n")
    assert rewards(folder) == 3


@pytest.mark.parametrize("missing", ["model.fstcrf", "state-1", "journal-1"])
def test_a_missing_file_is_an_error(folder: Path, start: CRF, missing: str) -> None:
    """Never a guess: what was told since the state was saved is in the journal alone."""
    one = FeedbackLearner.create(folder, start)
    told(one, 2)
    one.save()
    told(one, 3)
    one.close()
    (folder / missing).rename(folder.parent / "kept")
    refused(folder, f"{missing}: is missing")
    with pytest.raises(OptionError, match="is not empty"):
        FeedbackLearner.create(folder, start)
    (folder.parent / "kept").rename(folder / missing)
    assert rewards(folder) == 5


def test_an_interrupt_between_journal_and_step(
    folder: Path, start: CRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: what the journal has and the state has not is there after opening."""
    one = FeedbackLearner.create(folder, start)
    proposal = one.propose(SENTENCE)

    with monkeypatch.context() as patched:
        patched.setattr(one, "_learn", interrupt)
        with pytest.raises(KeyboardInterrupt):
            one.feedback(proposal, 0.5)
    with pytest.raises(OptionError, match="closed"):
        one.feedback(proposal, 0.5)
    with pytest.raises(OptionError, match="closed"):
        one.save()
    assert rewards(folder) == 1


def test_an_error_behind_a_state_that_is_whole(
    folder: Path, start: CRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state counts from its rename on, whatever follows: so must its journal."""
    save = State.save

    def interrupted(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    with FeedbackLearner.create(folder, start) as one:
        told(one, 2)
        with monkeypatch.context() as patched:
            patched.setattr(State, "save", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.save()
        told(one, 3)
    assert rewards(folder) == 5


def test_a_full_disk_loses_nothing(
    learner: FeedbackLearner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = learner.propose(SENTENCE)
    before, size = weights(learner), (folder / "journal-0").stat().st_size
    write = os.write

    def full(file: int, data: Any) -> int:
        write(file, bytes(data)[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            learner.feedback(proposal, 0.5)
        with pytest.raises(OSError, match="No space left"):
            learner.propose(SENTENCE)
    assert (folder / "journal-0").stat().st_size == size
    np.testing.assert_array_equal(weights(learner), before)
    assert learner.pending == (proposal.id,)
    learner.feedback(proposal, 0.5)
    assert learner.rewards == 1


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reward", [-0.1, 1.0001, float("nan"), float("inf"), "a", "0.5", None, [0.5], 1j]
)
def test_rewards_outside(learner: FeedbackLearner, reward: Any) -> None:
    proposal = learner.propose(SENTENCE)
    with pytest.raises(
        OptionError, match=r"reward of proposal 0 is .*, expected a number in \[0, 1\]"
    ):
        learner.feedback(proposal, reward)
    assert learner.pending == (0,)
    assert learner.rewards == 0


def test_proposals_that_were_not_made_or_were_answered(learner: FeedbackLearner) -> None:
    first, second = learner.propose_all([SENTENCE, {"word": ["wood"]}])
    assert (first.id, second.id) == (0, 1)
    learner.feedback(first, 1.0)
    for number, words in ((2, "never made; there are 2"), (-1, "never made"), (0, "already")):
        with pytest.raises(OptionError, match=words):
            learner.feedback(number, 0.5)
    with pytest.raises(OptionError, match="proposal 1 was answered already"):
        learner.feedback_all([(1, 0.5), (1, 0.5)])
    with pytest.raises(OptionError, match="proposal 1 was made by another learner"):
        learner.feedback(replace(second, labels=("B-X", "O")), 0.5)
    with pytest.raises(OptionError, match=r"1\.0 is neither a Proposal nor the number of one"):
        learner.feedback(1.0, 0.5)  # type: ignore[arg-type]
    assert learner.rewards == 1
    learner.withdraw(second)
    with pytest.raises(OptionError, match="answered already, or withdrawn"):
        learner.feedback(second, 0.5)
    with pytest.raises(OptionError, match="answered already, or withdrawn"):
        learner.withdraw(second)


def test_withdrawn_after_opening(folder: Path, start: CRF) -> None:
    with FeedbackLearner.create(folder, start) as one:
        one.propose_all([SENTENCE, SENTENCE])
        one.withdraw(0)
    with FeedbackLearner.open(folder) as two:
        assert two.pending == (1,)


def test_sentences(learner: FeedbackLearner) -> None:
    with pytest.raises(DataError, match="empty"):
        learner.propose({"word": []})
    with pytest.raises(DataError):
        learner.propose({"pos": ["N"]})
    assert learner.propose(SENTENCE).id == 0
    assert len(learner.propose({"word": ["unheard", "of"]}).labels) == 2


def test_a_step_that_is_not_finite(folder: Path, start: CRF) -> None:
    """Without clipping, a sample that was all but impossible has a weight beyond all numbers."""
    words = {"word": ["wood"] * 1200}
    aim = Aim("cross-entropy", control="mean")
    one = FeedbackLearner.create(folder, start, aim=aim)
    proposal = one.propose(words)
    before = weights(one)
    with pytest.raises(NumericError, match="proposal 0: the step gave weights that are not finite"):
        one.feedback(proposal, 1.0)
    np.testing.assert_array_equal(weights(one), before)
    told(one, 4)
    after = weights(one)
    assert np.isfinite(after).all()
    assert (after != before).any()
    one.close()
    with FeedbackLearner.open(folder) as two:
        np.testing.assert_array_equal(weights(two), after)
        assert two.pending == ()


def test_folders(folder: Path, start: CRF, learner: FeedbackLearner, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not empty"):
        FeedbackLearner.create(folder, start)
    with pytest.raises(OptionError, match="a learner has it open"):
        FeedbackLearner.open(folder)
    with pytest.raises(OptionError, match="several rewards for the same sentence"):
        FeedbackLearner.create(tmp_path / "other", start, aim=Aim(control="sentence"))
    others = Aim(control="leave-one-out", draws=2)
    with pytest.raises(OptionError, match="needs several rewards per sentence"):
        FeedbackLearner.create(tmp_path / "other", start, aim=others)
    with pytest.raises(FileNotFoundError, match=r"nothing'$"):
        FeedbackLearner.open(tmp_path / "nothing")
    with pytest.raises(OptionError, match="sync is 'never', expected one of always, process"):
        FeedbackLearner.create(tmp_path / "third", start, sync="never")  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFileError, match="no learner here"):
        FeedbackLearner.open(tmp_path / "empty")
    assert not any((tmp_path / "empty").iterdir())
    start.save(tmp_path / "empty" / "model.fstcrf")  # somebody's own: nobody locked first
    with pytest.raises(OptionError, match=r"is not empty: there is model\.fstcrf; choose another"):
        FeedbackLearner.create(tmp_path / "empty", start)


def test_a_closed_learner(folder: Path, start: CRF) -> None:
    """Another one may have the folder by now; looking does no harm."""
    one = FeedbackLearner.create(folder, start)
    first, second = one.propose_all([SENTENCE] * 2)
    one.feedback(first, 0.5)
    before = weights(one)
    one.close()
    one.close()
    with FeedbackLearner.open(folder) as two:
        two.feedback(second, 0.25)
        for call in (
            lambda: one.propose(SENTENCE),
            lambda: one.propose_all([]),
            lambda: one.feedback(second, 0.5),
            lambda: one.feedback_all([]),
            lambda: one.withdraw(second),
            one.save,
        ):
            with pytest.raises(OptionError, match=r"is closed: to continue, open it"):
                call()
    assert one.rewards == 1
    np.testing.assert_array_equal(weights(one), before)
    assert rewards(folder) == 2


def test_children_of_the_process_leave_it_alone(
    learner: FeedbackLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = learner.propose(SENTENCE)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(OptionError, match="used by the parent of this process"):
            learner.feedback(proposal, 0.5)
    learner.feedback(proposal, 0.5)


def test_the_state_of_another_model(folder: Path, start: CRF) -> None:
    FeedbackLearner.create(folder, start).close()
    other = untrained(SENTENCES, ("A", "B"), "U:%x[0,word]", tape="np")
    other.save(folder / "model.fstcrf")
    refused(folder, "belongs to another model")


def test_threads_wait_for_each_other(learner: FeedbackLearner) -> None:
    def work() -> None:
        told(learner, 25)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.rewards == 100
    assert learner.pending == ()


# --- Where learning begins ------------------------------------------------------------------------


def test_completed_tags_as_before() -> None:
    gold = [{**s, "np": ["B-X"] * len(s["word"])} for s in SENTENCES]
    gold[0]["np"][1] = "O"
    trained = CRF.train(gold, "np", TEMPLATE)
    whole = completed(trained)
    assert whole.tag_all(SENTENCES) == trained.tag_all(SENTENCES)
    assert whole.space.size > trained.space.size
    assert (
        np.sort(whole.theta[whole.theta != 0]) == np.sort(trained.theta[trained.theta != 0])
    ).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_untrained_has_every_weight(order: int) -> None:
    one = untrained(SENTENCES, LABELS, TEMPLATE, order=order, scheme="iob2", ends=True)
    topology = one.topology
    rows = one.index.n_node_rows * len(topology.node_slot_names) + topology.n_arc_slots
    ends = int(topology.initial.sum() + topology.final.sum())
    assert one.space.size == rows + ends
    assert not one.theta.any()
    assert one.tag({"word": ["unheard", "of"]}) == ["O", "O"]


def test_untrained_of_attribute_lists_and_hashes() -> None:
    one = untrained([[["a"], {"b": 2.0}]], ("X", "Y"))
    assert one.tag([["a"]]) == ["X"]
    hashed = untrained(SENTENCES, LABELS, TEMPLATE, hash_bits=6)
    assert hashed.index.n_node_rows == 64


def test_what_cannot_begin() -> None:
    with pytest.raises(DataError, match="no sentence"):
        untrained([], LABELS, TEMPLATE)
    with pytest.raises(OptionError, match="template"):
        untrained(SENTENCES, LABELS)
    with pytest.raises(OptionError, match="attribute lists"):
        untrained([[["a"]]], LABELS, TEMPLATE)
    with pytest.raises(OptionError, match="B features of the input"):
        untrained(SENTENCES, LABELS, "U:%x[0,word]\nB:%x[0,word]")


def test_it_does_not_pickle_and_says_what_does(learner: FeedbackLearner) -> None:
    with pytest.raises(OptionError, match=r"cannot be pickled: its state is .*open"):
        pickle.dumps(learner)
