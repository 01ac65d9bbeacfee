"""Seminar announcements: a field tagger that reads, or is composed with, an entity tagger."""

__all__: list[str] = []
