"""Candidates and description of the inverse width of a kernel."""

from __future__ import annotations

from ikmap.methods.fields import Symbol

GAMMAS = tuple(2.0**m for m in range(-10, 6))
"""Candidates of the inverse width of a kernel."""
WIDTH = Symbol(
    "γ",
    "inverse width of the kernel",
    "How quickly the similarity of two rows falls with their distance: a large γ lets only near rows count.",
)
"""Description of the inverse width in reports."""
