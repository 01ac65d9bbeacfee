"""Learning on the job: a tagger proposes labels, somebody says how good they are, it learns."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.feedback.folder import Proposal
    from fstcrf.feedback.learner import FeedbackLearner
    from fstcrf.feedback.simulation import (
        RewardLog,
        collect_log,
        completed,
        learn_from_log,
        simulate,
        untrained,
    )
    from fstcrf.kernel import Aim, Rule
    from fstcrf.train import Rater, Schedule

__all__ = [
    "Aim",
    "FeedbackLearner",
    "Proposal",
    "Rater",
    "RewardLog",
    "Rule",
    "Schedule",
    "collect_log",
    "completed",
    "learn_from_log",
    "simulate",
    "untrained",
]

__getattr__ = importer(
    __name__,
    {
        "Aim": "learner",
        "FeedbackLearner": "learner",
        "Proposal": "folder",
        "Rater": "simulation",
        "RewardLog": "simulation",
        "Rule": "learner",
        "Schedule": "simulation",
        "collect_log": "simulation",
        "completed": "simulation",
        "learn_from_log": "simulation",
        "simulate": "simulation",
        "untrained": "simulation",
    },
)
