"""Learning on the job: a tagger proposes labels, somebody says how good they are, it learns.

================  ====================================================================
FeedbackLearner   proposes and learns, over days; what it is told is never lost
Proposal          labels on offer, with a number
Aim, Rule         what a reward says; how far a step goes
untrained         a tagger that knows labels and attributes and nothing else
completed         a tagger in which every attribute has a weight for every label
simulate          learn from rewards that gold labels give
================  ====================================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.feedback.learner import FeedbackLearner
    from fstcrf.feedback.proposal import Proposal
    from fstcrf.feedback.simulation import simulate
    from fstcrf.feedback.start import completed, untrained
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
        "Proposal": "proposal",
        "Rule": "learner",
        "Schedule": "simulation",
        "completed": "start",
        "simulate": "simulation",
        "untrained": "start",
    },
)
