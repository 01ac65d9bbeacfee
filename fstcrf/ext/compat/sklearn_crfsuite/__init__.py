"""A drop-in for sklearn-crfsuite: an estimator of scikit-learn over CRFsuite's models.

``fstcrf.ext.compat.install("sklearn_crfsuite")`` is all it takes. It needs scikit-learn:
``pip install fstcrf[sklearn]``.
"""

from fstcrf.ext.compat.sklearn_crfsuite import metrics, scorers, utils
from fstcrf.ext.compat.sklearn_crfsuite.estimator import CRF, NotFittedError

__all__ = ["CRF", "NotFittedError", "metrics", "scorers", "utils"]
