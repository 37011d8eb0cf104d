"""Formats of data files, one module each: how a file is opened, cut into fragments, and read."""
