"""Tests; where they and what they test stand."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
