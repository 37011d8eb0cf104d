"""Columns of a table: their kinds, the label, weights, and how cells become numbers and codes."""
