"""Learners that take one row after the other: online gradient descent in several forms, and NORMA.

Open ``ogd.py`` first, the learner that runs use by default.
"""
