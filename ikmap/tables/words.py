"""The words for encodings, by the kind of column. The standard library is enough for them, as for all options."""

NUMBERS = ("none", "minmax", "standard", "quantile")
CATEGORIES = ("onehot", "target", "count", "hash")
TIMES = ("parts", "cycles", "both", "recurring")
