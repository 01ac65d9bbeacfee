"""Patterns over labels and tokens with learnt weights, for a given tagger or jointly with it.

================  ==========================================================================
learn_rules       weights of the open costs of a grammar file, for a fixed tagger
train_with_rules  the tagger's weights and the open costs, jointly
LearnedRules      the results: weights, counts, the file with learnt costs
TrainedWithRules  the same with the tagger
================  ==========================================================================
"""

from fstcrf.ext.rules.learning import LearnedRules, RuleCount, learn_rules
from fstcrf.ext.rules.training import TrainedWithRules, train_with_rules

__all__ = ["LearnedRules", "RuleCount", "TrainedWithRules", "learn_rules", "train_with_rules"]
