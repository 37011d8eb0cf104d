"""Tests against services of others: servers of Prefect, Slurm, a network of two hosts, a second user of the machine.

They mostly wait. ``make services`` runs them, and ``make test`` leaves them out.
"""
