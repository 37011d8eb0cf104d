"""Novelty: which rows are unlike those that were learned from."""

from __future__ import annotations

from ikmap.tasks.novelty.kind import NOVELTY, Novelty

__all__ = ["NOVELTY", "Novelty"]
