"""Exact, sparse kernel features from random partitionings, and linear learning on them."""
