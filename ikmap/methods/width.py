"""What kernels have whose one parameter is an inverse width."""

from __future__ import annotations

GAMMAS = tuple(2.0**m for m in range(-10, 6))
"""Search range of a kernel's width that is not given by psi."""
