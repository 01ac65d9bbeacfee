"""From word pieces to spans: logits of token classifiers, decoded, tuned, calibrated, saved."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.tokens.biases import TransitionBiases
    from fstcrf.ext.tokens.decoder import TextSpan, TokenDecoder
    from fstcrf.ext.tokens.pieces import Pieces

__all__ = ["Pieces", "TextSpan", "TokenDecoder", "TransitionBiases"]

__getattr__ = importer(
    __name__,
    {
        "Pieces": "pieces",
        "TextSpan": "decoder",
        "TokenDecoder": "decoder",
        "TransitionBiases": "biases",
    },
)
