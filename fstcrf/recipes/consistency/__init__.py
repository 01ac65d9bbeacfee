"""Label consistency in CoNLL-2003, by Gibbs sampling: Finkel, Grenager and Manning (2005)."""

__all__: list[str] = []
