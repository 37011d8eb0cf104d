"""Learners, which fit weights to cells or rows: linear machines (``dual/``), kernel machines, online learners.

Open ``rows.py`` first: it says in which forms every learner takes rows.
"""
