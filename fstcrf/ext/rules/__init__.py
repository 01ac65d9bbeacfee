"""Patterns over labels and tokens whose weights are learned, beside a tagger or together with it.

================  ==========================================================================
learn_rules       weights of the open costs of a grammar file; the tagger stays as it is
train_with_rules  the tagger's own weights and the open costs, together
LearnedRules      what was learned: weights, counts, the file with its costs filled in
TrainedWithRules  the same with the tagger
================  ==========================================================================
"""

from fstcrf.ext.rules.learning import LearnedRules, RuleCount, learn_rules
from fstcrf.ext.rules.training import TrainedWithRules, train_with_rules

__all__ = ["LearnedRules", "RuleCount", "TrainedWithRules", "learn_rules", "train_with_rules"]
