"""Classification: two classes or more."""

from __future__ import annotations

from ikmap.tasks.classification.kind import CLASSIFICATION, Classification

__all__ = ["CLASSIFICATION", "Classification"]
