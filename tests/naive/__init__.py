"""Slow, obvious versions of every method: the oracle of each fast one."""
