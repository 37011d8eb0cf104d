"""Whole runs, from files to ``metrics.json`` and the report: a batch run, an online run, and the scoring of new data.

Open ``batch.py`` first. ``plan.py`` says beforehand how much memory and disk a run takes; ``trained.py`` opens a
finished run in Python (``from pipeline import load_run``).
"""
