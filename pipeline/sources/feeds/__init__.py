"""Rows that arrive over time: from standard input, or from a folder to which files are added."""
