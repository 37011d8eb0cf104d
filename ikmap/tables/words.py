"""Names of encodings by the kind of column, for options, which need the standard library only."""

NUMBERS = ("none", "minmax", "standard", "quantile")
CATEGORIES = ("onehot", "target", "count", "hash")
TIMES = ("parts", "cycles", "both", "recurring")
