"""Work that leaves files: what it needs, what it does, and what must be there whatever ends it."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fstcrf.cli.main import main
from fstcrf.demo import corpus_path, template_path
from fstcrf.errors import ModelFileError, RecoveryWarning
from fstcrf.ext.feedback import FeedbackLearner, untrained

Contents = dict[str, bytes]

COLUMNS = ("--columns", "word,pos,field")
TAGGER = (*COLUMNS, "--target", "field", "--template", "field.tpl", "--max-iterations", "5")
PIPELINE = """
[task.pos]
data = ["train.txt"]
columns = ["word", "pos", "field"]
template = "pos.tpl"
max_iterations = 4

[task.field]
data = ["train.txt"]
columns = ["word", "pos", "field"]
template = "joint.tpl"
reads = ["pos"]
scheme = "iob2"
max_iterations = 4
"""


def fstcrf(*arguments: str) -> None:
    """Run a command within this process; SystemExit where it fails."""
    sys.argv = ["fstcrf", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


@dataclass(frozen=True)
class Scenario:
    """A piece of work in a folder, which is the current one.

    Parameters
    ----------
    name : str
    prepare : callable
        Makes what it needs, and what stood in its outputs before.
    act : callable
        Does it; done again it goes on, or begins anew, and ends with the same files.
    promised : callable, optional
        Looks at a folder and at what the work has noted; says what is missing of that.
    loose : pattern
        Files that are its own business: not compared.
    state : pattern
        Files that belong to a run that goes on: not compared while it is not finished.
    dated : pattern
        Files that tell times: compared without what `undated` takes out of them.
    """

    name: str
    prepare: Callable[[], None]
    act: Callable[[], None]
    promised: Callable[[Path, list[str]], str] | None = None
    state: str = "(?!)"
    loose: str = "(?!)"
    dated: str = "(?!)"

    def found(self, folder: Path) -> Contents:
        """Return the files of a folder that count."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not re.search(self.loose, path.relative_to(folder).as_posix())
        }
        return {
            name: undated(data) if re.search(self.dated, name) else data
            for name, data in files.items()
        }

    def check(self, found: Contents, old: Contents, new: Contents) -> list[str]:
        """Say what is neither the old state nor the new one."""
        wrong = []
        for name in sorted(set(found) | set(old) | set(new)):
            # Temporary files are swept later; a lock that a dead process left counts for nothing.
            if re.search(self.state, name) or name.endswith((".tmp", ".lock")):
                continue
            there = found.get(name)
            if there not in (old.get(name), new.get(name)):
                size = "is gone" if there is None else f"has other {len(there):,} bytes"
                wrong.append(f"{name} {size}")
        return wrong


def undated(data: bytes) -> bytes:
    """Return a text without numbers, among them times and memory, and without what was kept."""
    data = re.sub(rb"\| (of earlier runs|processor) [^\n]*\n", b"", data)
    return re.sub(
        rb"\d{4}-\d\d-\d\d[T ][0-9:+]*|\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?( s\b)?", b"0", data
    )


def texts(size: int = 30) -> None:
    """Copy the small corpus of the demo, and its templates."""
    for part in ("train", "dev", "test"):
        sentences = corpus_path(part).read_text("utf-8").split("\n\n")[:size]
        Path(f"{part}.txt").write_text("\n\n".join(sentences) + "\n\n", "utf-8")
    for name in ("pos", "field", "joint"):
        shutil.copy(template_path(name), f"{name}.tpl")


def tagger(name: str = "field.fstcrf", *options: str) -> None:
    """Make the corpus and a tagger, of fewer iterations than those of the scenarios."""
    texts()
    fstcrf("train", "train.txt", "-o", name, *TAGGER[:-1], "2", *options)


def both() -> None:
    """Make two taggers that can be composed."""
    tagger()
    given = (*COLUMNS, "--target", "pos", "--template", "pos.tpl", "--max-iterations", "3")
    fstcrf("train", "train.txt", "-o", "pos.fstcrf", *given)


def old(*names: str) -> None:
    """Let something stand where outputs go."""
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(b"what was there before\n" * 300)


# --- Training -------------------------------------------------------------------------------------


def train() -> None:
    """Train over an older model, with checkpoints."""
    given = ("--set", "checkpoint=state", "--set", "checkpoint_every=1", "--resume")
    fstcrf("train", "train.txt", "-o", "field.fstcrf", *TAGGER, *given)


def train_apart() -> None:
    """Train on two processes, with the text in files."""
    given = ("--workers", "2", "--set", "memory_limit=1GiB", "--resume")
    every = ("--set", "checkpoint=state", "--set", "checkpoint_every=1")
    fstcrf("train", "train.txt", "-o", "field.fstcrf", *TAGGER, *given, *every)


def tune() -> None:
    """Search among options, with a journal."""
    given = ("--dev", "dev.txt", "--trials", "4", "--journal", "journal", "--resume")
    search = ("order=1", "l1=0", "l2=0.1..10")
    tried = [word for one in search for word in ("--try", one)]
    fstcrf("tune", "train.txt", "-o", "best.fstcrf", *TAGGER, *given, *tried, "--set", "seed=3")


def segments() -> None:
    """Train a tagger of segments."""
    given = ("--structure", "segments", "--target", "field", "--template", "field.tpl")
    state = ("--set", "checkpoint=state", "--resume", "--set", "longest=4", "--max-iterations", "3")
    fstcrf("train", "train.txt", "-o", "segments.fstcrf", *COLUMNS, *given, *state)
    fstcrf("tag", "segments.fstcrf", "test.txt", "-o", "tagged.txt")


def declare() -> None:
    """Make the corpus and declare a pipeline."""
    texts()
    Path("notices.toml").write_text(PIPELINE, "utf-8")


def pipeline() -> None:
    """Train a pipeline and tag with it."""
    fstcrf("train", "notices.toml", "-o", "notices")
    fstcrf("tag", "notices", "test.txt", "-o", "tagged.txt")


# --- Tagging --------------------------------------------------------------------------------------


def prepared_files() -> None:
    """Make a tagger and a folder of texts."""
    tagger()
    Path("in/deep").mkdir(parents=True)
    sentences = Path("test.txt").read_text("utf-8").split("\n\n")
    for number, name in enumerate(("a.txt", "b.txt", "c.txt", "deep/d.txt")):
        text = "\n\n".join(sentences[number * 5 : number * 5 + 5]) + "\n\n"
        Path("in", name).write_text(text, "utf-8")


def tag() -> None:
    """Tag a file over an older one, and a packed one."""
    fstcrf("tag", "field.fstcrf", "test.txt", "-o", "tagged.txt")
    fstcrf("tag", "field.fstcrf", "test.txt", "-o", "tagged.gz", "--nbest", "2")


def tag_folder() -> None:
    """Tag many files."""
    fstcrf("tag", "field.fstcrf", "in", "-o", "out")


def tag_apart() -> None:
    """Tag many files on two processes."""
    fstcrf("tag", "field.fstcrf", "in", "-o", "out", "--workers", "2")


# --- What else writes -----------------------------------------------------------------------------


def others() -> None:
    """Convert, compose, calibrate and report."""
    fstcrf("compose", "field.fstcrf", "pos.fstcrf", "-o", "joint.fstcrf", "--normalize", "product")
    fstcrf("convert", "field.fstcrf", "-o", "field.crfsuite")
    fstcrf("convert", "field.crfsuite", "-o", "again.fstcrf")
    given = ("--curve", "log-odds", "--plot", "reliable.svg")
    fstcrf("calibrate", "field.fstcrf", "dev.txt", "-o", "curve.json", *given)
    given = ("--structure", "consistency", "--target", "field")
    fstcrf("train", "train.txt", "-o", "agree.json", *COLUMNS, *given)
    fstcrf("demo", "--copy", "demo")


def report() -> None:
    """Write a report, and the course of a short training."""
    fstcrf("report", "field.fstcrf", "test.txt", "-o", "page.html")
    course = ("--max-iterations", "1", "--set", "report=course")
    fstcrf("train", "train.txt", "-o", "short.fstcrf", *TAGGER[:-2], *course)


def recipe() -> None:
    """Repeat an experiment, whose finished parts are kept."""
    fstcrf("recipe", "segments", "--data", "data", "-o", "out")


def experiment_data() -> None:
    """Let the corpus of the demo stand for that of a recipe."""
    for name in ("conll2000", "conll2003"):
        Path("data", name).mkdir(parents=True)
    for part, other in (("train", "train"), ("test", "testb")):
        sentences = corpus_path(part).read_text("utf-8").strip().split("\n\n")[:20]
        rows = [[line.split() for line in sentence.splitlines()] for sentence in sentences]
        for name, middle in ((f"conll2000/{part}.txt", ""), (f"conll2003/eng.{other}", "O ")):
            text = "\n\n".join(
                "\n".join(f"{word} {tag} {middle}{field}" for word, tag, field in sentence)
                for sentence in rows
            )
            Path("data", name).write_text(text + "\n", "utf-8")


def learner() -> FeedbackLearner:
    """Open the learner, or begin where none had begun."""
    try:
        return FeedbackLearner.open("learner")
    except (FileNotFoundError, ModelFileError):
        start = untrained([{"w": list("abcdefgh")}], ["X", "Y"], "U:%x[0,w]\nB")
        return FeedbackLearner.create("learner", start, seed=1)


def learn() -> None:
    """Hear of 12 rewards that depend on how many there were; save now and then."""
    note = getattr(ctypes.CDLL(None), "disk_note", print)
    with learner() as one:
        while (count := one.rewards) < 12:
            words = {"w": list("abcdefgh"[count % 5 : count % 5 + 3])}
            proposal = one.pending[0] if one.pending else one.propose(words)
            one.feedback(proposal, count % 3 / 2)
            note(b"%d" % (count + 1))
            if count % 5 == 4:
                one.save()
        one.model().save("learnt.fstcrf")


def heard(folder: Path, notes: list[str]) -> str:
    """Say which rewards a learner has lost of those that it was told of."""
    told = max((int(note) for note in notes if note != "done"), default=0)
    known = 0
    with warnings.catch_warnings(), suppress(FileNotFoundError, ModelFileError):  # none had begun
        warnings.simplefilter("ignore", RecoveryWarning)
        with FeedbackLearner.open(folder / "learner") as one:
            known = one.rewards
    return "" if known - told in {0, 1} else f"{known} rewards are known, {told} were acknowledged"


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("train", tagger, train, state="state$"),
        Scenario("train-apart", tagger, train_apart, state="state$"),
        Scenario("tune", texts, tune, loose="^journal"),
        Scenario("segments", texts, segments, state="state$"),
        Scenario("pipeline", declare, pipeline, state=r"checkpoint|pipeline\.json|tagged"),
        Scenario("tag", tagger, tag),
        Scenario("tag-folder", prepared_files, tag_folder, state="jsonl$", dated="jsonl$"),
        Scenario("tag-apart", prepared_files, tag_apart, loose="jsonl$"),
        Scenario("learn", lambda: None, learn, heard, loose=r"^learner/"),
        Scenario("others", both, others),
        Scenario("report", tagger, report, dated="html|course"),
        Scenario("recipe", experiment_data, recipe, state="out/work", dated="out/"),
    )
}
