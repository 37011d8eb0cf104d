"""Tests of what surrounds a run: the plan made before it, and the schema of ``metrics.json``."""
