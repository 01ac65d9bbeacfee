"""Learning from rewards: a tagger proposes labels, receives their reward, and learns from it."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.feedback.bandit import Schedule as Schedule
    from fstcrf.ext.feedback.descent import Aim as Aim
    from fstcrf.ext.feedback.descent import Rule as Rule
    from fstcrf.ext.feedback.folder import Proposal as Proposal
    from fstcrf.ext.feedback.learner import FeedbackLearner as FeedbackLearner
    from fstcrf.ext.feedback.raters import Rater as Rater
    from fstcrf.ext.feedback.simulation import RewardLog as RewardLog
    from fstcrf.ext.feedback.simulation import collect_log as collect_log
    from fstcrf.ext.feedback.simulation import completed as completed
    from fstcrf.ext.feedback.simulation import learn_from_log as learn_from_log
    from fstcrf.ext.feedback.simulation import simulate as simulate
    from fstcrf.ext.feedback.simulation import untrained as untrained

__all__, __getattr__ = importer(
    __name__,
    {
        "folder": "Proposal",
        "learner": "Aim FeedbackLearner Rule",
        "simulation": "Rater RewardLog Schedule collect_log completed learn_from_log simulate "
        "untrained",
    },
)
