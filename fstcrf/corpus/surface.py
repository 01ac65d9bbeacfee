"""Where the tokens of a sentence stand in its text.

============= ================================================================
Surface       collects the forms of one sentence and locates them
============= ================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Surface"]


@dataclass(slots=True)
class Surface:
    """The forms of one sentence as they are written, multiword tokens as one.

    Parameters
    ----------
    text : str, optional
        The text of the sentence; built from the forms when absent.
    """

    text: str | None = None
    _forms: list[tuple[str, int, bool]] = field(default_factory=list)
    _inside: int = 0

    def multiword(self, form: str, n_tokens: int, *, spaced: bool) -> None:
        """Add a form that the next `n_tokens` tokens share; `spaced` says a space follows."""
        self._forms.append((form, n_tokens, spaced))
        self._inside = n_tokens

    def token(self, form: str, *, spaced: bool) -> None:
        """Add a token, unless it belongs to the last multiword form."""
        if self._inside > 0:
            self._inside -= 1
        else:
            self._forms.append((form, 1, spaced))

    def locate(self, chars: list[tuple[int, int]], position: int) -> int:
        """Append start and end of each token to `chars`.

        Parameters
        ----------
        chars : list of (int, int)
            Takes one pair per token, end exclusive; (-1, -1) for all tokens of a sentence whose
            text does not hold its forms in their order.
        position : int
            Where the sentence starts in the document's text.

        Returns
        -------
        int
            Where the next sentence starts.
        """
        text = self.text
        if text is None:
            text = "".join([form + " " * spaced for form, _, spaced in self._forms]).rstrip()
        found: list[tuple[int, int]] = []
        cursor = 0
        fits = True
        for form, n_tokens, _ in self._forms:
            while not text.startswith(form, cursor) and text[cursor : cursor + 1].isspace():
                cursor += 1
            fits = fits and text.startswith(form, cursor)
            end = cursor + len(form)
            found += [(position + cursor, position + end)] * n_tokens
            cursor = end
        # A multiword range that runs past the sentence promises more tokens than there are.
        if self._inside:
            found, fits = found[: len(found) - self._inside], False
        chars += found if fits else [(-1, -1)] * len(found)
        return position + len(text) + 1
