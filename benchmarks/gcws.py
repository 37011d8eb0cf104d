"""Weighted minwise hashes against datasketch's weighted MinHash."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap.partitioners import GCWSPartitions
from ikmap.rows import as_dense, take_rows

TITLE = "Weighted minwise hashes"
ABOUT = (
    "mapping rows to t = 256 codes each: datasketch's WeightedMinHashGenerator with as many hashes of the same rows, "
    "negative values as columns of their own"
)
T = 256
ROWS, PEER_ROWS = 8192, 256
TARGET = 20.0
SETS = ("spambase", "usps", "a9a", "covtype-93k")


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or SETS:
        yield Case(f"{name}, t {T}", partial(against_datasketch, name, options))


def against_datasketch(name: str, options: Options) -> Comparison:
    """Same rows, same number of hashes."""
    data = load(name, options)
    rows = np.sort(np.random.default_rng(0).permutation(data.y.size)[: PEER_ROWS if options.quick else ROWS])
    X = take_rows(data.X, rows)
    model = GCWSPartitions(0, T, 1.0, 8, 1, True, X.shape[1])
    few = as_dense(X[:PEER_ROWS])
    few = few[few.any(axis=1)]
    signed = np.concatenate([np.maximum(few, 0), np.maximum(-few, 0)], axis=1)
    label = "datasketch WeightedMinHashGenerator"
    sketch = peers.find("datasketch")

    if sketch is None:
        peer = Side.absent(label, "datasketch", target=TARGET)
    else:
        made = sketch.WeightedMinHashGenerator(signed.shape[1], sample_size=T, seed=1)
        peer = Side(label, lambda: [made.minhash(row).hashvalues for row in signed], target=TARGET)

    def check(results: dict[str, Any]) -> str:
        ours = results["ours"]
        if label not in results:
            return f"{ours.size} codes"
        theirs = np.array(results[label])
        gaps = []
        for i in range(0, len(few) - 1, 7):
            least, most = np.minimum(signed[i], signed[i + 1]).sum(), np.maximum(signed[i], signed[i + 1]).sum()
            gaps.append(
                [(ours[i] == ours[i + 1]).mean(), (theirs[i] == theirs[i + 1]).all(axis=1).mean(), least / most]
            )
        apart = np.abs(np.array(gaps)[:, :2] - np.array(gaps)[:, 2:]).mean(axis=0)
        if apart[0] > 0.1:
            raise Disagreement(f"share of equal codes is {apart[0]:.3f} from the kernel")
        return f"equal codes are {apart[0]:.3f} from the kernel on average, those of datasketch {apart[1]:.3f}"

    subset: Any = few if sketch is not None else X
    return Comparison(
        Side("ours", lambda: model.cells(subset, options.threads).codes, warm=lambda: model.cells(X[:16], 1)),
        [peer],
        check,
        rows=len(few),
        bound=lambda seconds: _bound(seconds, subset),
    )


def _bound(seconds: float, X: Any) -> str:
    values = int(np.count_nonzero(X)) if isinstance(X, np.ndarray) else int(X.nnz)
    each = seconds / (values * T) * 1e9
    return f"{each:.2f} ns for each hash and non-zero; two fused operations, a floor and a comparison take about 0.1"
