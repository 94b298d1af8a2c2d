"""Tables as people have them: categories, dates, missing values and places on the globe, as columns of numbers."""

from knotwise.estimators.encoding.encoding import EncodedRows, Encoding

__all__ = ["EncodedRows", "Encoding"]
