"""Cross-validation: rows predicted from the others, one by one or in blocks."""
