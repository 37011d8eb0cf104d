"""Learners that take one row after the other: online gradient descent in several forms, NOGD and AdaRaker.

Open ``ogd.py`` first, the learner that runs use by default; the others are baselines from papers.
"""
