"""The version of CRFsuite whose behaviour and files the drop-in has."""

__all__ = ["CRFSUITE_VERSION"]

CRFSUITE_VERSION = "0.12.2"
