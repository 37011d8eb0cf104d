"""Tests that start whole processes: the commands as users type them, and clusters.

Open ``test_batch.py`` first. ``make check`` leaves this folder out, ``make test`` runs it.
"""
