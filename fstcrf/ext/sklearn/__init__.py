"""A tagger as an estimator of scikit-learn: fit, predict, score, in pipelines and searches.

Inputs have one of two forms, and answers have the same form:

- *sentences*: a list of sentences, each a list of feature dicts or attribute lists, of rows of
  columns or of strings, a mapping of column to list, or a DataFrame; labels are a list for each;
- a *table*: a DataFrame or an array [N, F] with a row for each token; labels are an array [N].
  Where `sentence` names a column, successive rows with one value there are a sentence; else every
  row is one.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.sklearn.estimator import CRFTagger as CRFTagger

__all__, __getattr__ = importer(
    __name__,
    {
        "estimator": "CRFTagger",
    },
)
