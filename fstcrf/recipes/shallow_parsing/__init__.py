"""Sha and Pereira (2003): noun-phrase chunking with every optimiser."""

__all__: list[str] = []
