"""Certificates of how well linear problems were solved, above all duality gaps.

In a certificate, ``n_support`` is a list with the count of each problem. In the sum of certificates it is a single int
if there is a single problem, else absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ikmap.json_values import Json
from ikmap.learners.dual.linear_svm import SVMFit


class SVMCertificate(TypedDict):
    """Evidence that linear problems are solved, as JSON values."""

    duality_gap: float
    objective: float
    iterations: int
    converged: bool
    n_support: list[int]


def certificate(fit: SVMFit) -> SVMCertificate:
    """Return the certificate of a linear SVM: the widest gap and the most sweeps of its problems."""
    return {
        "duality_gap": float(fit.gap.max()),
        "objective": float(fit.primal.sum()),
        "iterations": int(fit.n_iter.max()),
        "converged": bool(fit.converged.all()),
        "n_support": fit.n_support.tolist(),
    }


def sum_up(certificates: Sequence[SVMCertificate]) -> dict[str, Json]:
    """Return the widest gap and the most iterations of the certificates of all groups of problems."""
    n_support = [count for certificate in certificates for count in certificate["n_support"]]
    return {
        "duality_gap": max(c["duality_gap"] for c in certificates),
        "objective": sum(c["objective"] for c in certificates),
        "iterations": max(c["iterations"] for c in certificates),
        "converged": all(c["converged"] for c in certificates),
        **({"n_support": n_support[0]} if len(n_support) == 1 else {}),  # one-vs-rest problems have no single number
    }
