"""Novelty: finds rows that are unlike the training rows."""

from __future__ import annotations

from ikmap.tasks.novelty.kind import NOVELTY, Novelty

__all__ = ["NOVELTY", "Novelty"]
