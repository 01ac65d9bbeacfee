"""Learning on the job: a tagger proposes labels, somebody says how good they are, it learns."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.feedback.bandit import Schedule
    from fstcrf.ext.feedback.descent import Aim, Rule
    from fstcrf.ext.feedback.folder import Proposal
    from fstcrf.ext.feedback.learner import FeedbackLearner
    from fstcrf.ext.feedback.raters import Rater
    from fstcrf.ext.feedback.simulation import (
        RewardLog,
        collect_log,
        completed,
        learn_from_log,
        simulate,
        untrained,
    )

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
