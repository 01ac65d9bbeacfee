"""From word pieces to spans: logits of token classifiers, decoded, tuned, calibrated, saved."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.tokens.biases import TransitionBiases as TransitionBiases
    from fstcrf.ext.tokens.decoder import TextSpan as TextSpan
    from fstcrf.ext.tokens.decoder import TokenDecoder as TokenDecoder
    from fstcrf.ext.tokens.pieces import Pieces as Pieces

__all__, __getattr__ = importer(
    __name__,
    {
        "biases": "TransitionBiases",
        "decoder": "TextSpan TokenDecoder",
        "pieces": "Pieces",
    },
)
