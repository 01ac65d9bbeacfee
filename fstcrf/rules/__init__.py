"""Patterns over labels and tokens whose weights are learned, beside a tagger that stays as it is.

============  ============================================================================
learn_rules   weights of the open costs of a grammar file, from labelled sentences
LearnedRules  what was learned: weights, counts, the file with its costs filled in
============  ============================================================================
"""

from fstcrf.rules.learning import LearnedRules, RuleCount, learn_rules

__all__ = ["LearnedRules", "RuleCount", "learn_rules"]
