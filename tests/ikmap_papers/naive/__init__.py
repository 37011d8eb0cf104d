"""Slow, obvious forms of what only papers need."""
