"""Learning on the job: a tagger proposes labels, somebody says how good they are, it learns."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.feedback.folder import Proposal
    from fstcrf.feedback.learner import FeedbackLearner
    from fstcrf.feedback.simulation import completed, simulate, untrained
    from fstcrf.kernel import Aim, Rule
    from fstcrf.train import Schedule

__all__ = [
    "Aim",
    "FeedbackLearner",
    "Proposal",
    "Rule",
    "Schedule",
    "completed",
    "simulate",
    "untrained",
]

__getattr__ = importer(
    __name__,
    {
        "Aim": "learner",
        "FeedbackLearner": "learner",
        "Proposal": "folder",
        "Rule": "learner",
        "Schedule": "simulation",
        "completed": "simulation",
        "simulate": "simulation",
        "untrained": "simulation",
    },
)
