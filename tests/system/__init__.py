"""Tests that start whole processes: the commands as users type them, clusters, Prefect and Slurm.

Open ``test_batch.py`` first. ``make check`` leaves this folder out, ``make test`` runs it.
"""
