"""Automatic choice of a model: candidates are raced on folds of a sample of the rows, within a budget of seconds."""
