"""Tables as people have them: categories, dates, missing values and places on the globe, as columns of numbers."""

from knotwise.data.encoding.encoding import CodedRows, EncodedRows, Encoding, EncodingMixin

__all__ = ["CodedRows", "EncodedRows", "Encoding", "EncodingMixin"]
