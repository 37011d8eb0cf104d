"""Reading LIBSVM text against scikit-learn's and svmloader's readers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks import environment, peers
from benchmarks.data import find, stack
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from pipeline.sources import open_source

TITLE = "LIBSVM text"
ABOUT = "plain text to one CSR matrix and the labels, on one thread: load_svmlight_file and svmloader"

OPENERS = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
SVMLOADER = "svmloader"
GENERATED = "generated, 20 numbers a row"


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k", "usps", "sector"):
        yield Case(name, partial(read_all, name, options))
    yield Case(GENERATED, partial(read_all, GENERATED, options))


def read_all(name: str, options: Options) -> Comparison:
    path, size = text_file(name, options)

    def ours() -> Any:
        source = open_source(str(path), "libsvm")
        blocks = [block for fragment in source.fragments() for block in source.read(fragment)]
        return stack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])

    def scikit() -> Any:
        return load_svmlight_file(str(path), zero_based=False)

    def svm() -> Any:
        assert svmloader is not None
        return svmloader.load_svmfile(str(path), ltype="d", zero_based=False)

    def check(results: dict[str, Any]) -> str:
        X, y = results["ours"]
        for who, (other, labels) in results.items():
            same = other.shape == X.shape and other.nnz == X.nnz and np.array_equal(labels, y)
            # Both peers round some decimal numbers in the last place.
            close = (
                same
                and np.array_equal(other.indices, X.indices)
                and np.allclose(other.data, X.data, rtol=1e-15, atol=0)
            )
            if not (close if who != SVMLOADER else same):
                raise Disagreement(f"{who} read something else")
        return f"{X.shape[0]} rows, {X.nnz} numbers, {size / 1e6:.3g} MB"

    svmloader = peers.find("svmloader")
    return Comparison(
        Side("ours", ours),
        [
            Side("load_svmlight_file", scikit, target=10.0),
            Side.absent(SVMLOADER, "svmloader") if svmloader is None else Side(SVMLOADER, svm),
        ],
        check,
        memory=name == GENERATED,
        bound=lambda seconds: (
            f"{seconds / size * 1e9:.2g} ns a byte of text; a copy takes {2e9 / environment.copy_rate():.2g}"
        ),
    )


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where plain text is put; gone when the process ends."""
    return tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-")


def text_file(name: str, options: Options) -> tuple[Path, int]:
    """Path and size of the plain text of a data set's training file, or of generated numbers."""
    path = Path(_folder().name) / f"{name.replace(' ', '-').replace(',', '')}.libsvm"
    if not path.exists():
        if name == GENERATED:
            generate(path, 2_000 if options.quick else 200_000)
        else:
            found = Path(find(name, options).train_url)
            with OPENERS.get(found.suffix, open)(found, "rb") as packed, path.open("wb") as plain:  # type: ignore[operator]
                shutil.copyfileobj(packed, plain)
    return path, path.stat().st_size


def generate(path: Path, rows: int, columns: int = 20) -> None:
    """Rows of random numbers with six digits, a label in front."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="ascii") as file:
        for start in range(0, rows, 10_000):
            values = rng.random((min(10_000, rows - start), columns)).round(6)
            for row in values.tolist():
                pairs = " ".join(f"{j}:{value:g}" for j, value in enumerate(row, 1))
                file.write(f"{1 if row[0] + row[1] > 1 else -1} {pairs}\n")
