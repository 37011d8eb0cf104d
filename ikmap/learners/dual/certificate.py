"""Certificates of solutions of linear problems: above all their duality gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ikmap.learners.dual.linear_svm import SVMFit


def certificate(fit: SVMFit) -> dict[str, Any]:
    """Return the certificate of a linear SVM: the widest gap and the most sweeps of its problems."""
    return {
        "duality_gap": float(fit.gap.max()),
        "objective": float(fit.primal.sum()),
        "iterations": int(fit.n_iter.max()),
        "converged": bool(fit.converged.all()),
        "n_support": fit.n_support.tolist(),
    }


def sum_up(certificates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up the certificates of all groups: the widest gap, the most iterations."""
    n_support = [count for certificate in certificates for count in certificate["n_support"]]
    return {
        "duality_gap": max(c["duality_gap"] for c in certificates),
        "objective": sum(c["objective"] for c in certificates),
        "iterations": max(c["iterations"] for c in certificates),
        "converged": all(c["converged"] for c in certificates),
        **({"n_support": n_support[0]} if len(n_support) == 1 else {}),  # of one-vs-rest problems, no single number
    }
