"""Cells on a GPU against the same cells on all cores; on a machine without one it says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from benchmarks.harness import Case, Comparison, Disagreement, Options, Row, Side, compare
from ikmap.device import Device, DeviceArray, find_gpu
from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.partitioners.mapper import Mapper
from ikmap.rows import Rows, take_rows

TITLE = "Cells on a GPU"
ABOUT = (
    "mapping rows to t = 100 cells on a GPU, transfers included, against the processor with --threads cores; "
    "made-up rows need no data set"
)

T = 100
MADE_UP = {"8 columns": 8, "54 columns": 54, "200 columns": 200}
ROWS, QUICK_ROWS = 32_768, 500
PROCESSOR = "processor"


def cases(options: Options) -> Iterator[Case]:
    device = find_gpu()
    if isinstance(device, str):
        yield Case("cells of a GPU", rows=lambda: [Row("cells of a GPU", PROCESSOR, notes=[f"no GPU here: {device}"])])
        return
    for name in (*MADE_UP, *options.datasets):
        for method in ("anne", "iforest"):
            for psi in (64,) if options.quick else (256, 4096):
                case = f"{name}, {method}, psi {psi}"
                yield Case(
                    case, rows=partial(measure, case, partial(rows_of, name, options), method, psi, device, options)
                )


def measure(case: str, rows: Callable[[], Rows], method: str, psi: int, device: Device, options: Options) -> list[Row]:
    """Map the same rows with the same model both ways."""
    return compare("gpu", Case(case, lambda: against_processor(rows(), method, psi, device, options)), options)


def against_processor(X: Rows, method: str, psi: int, device: Device, options: Options) -> Comparison:
    """The device's cells, from rows in the host's memory to cells there."""
    psi = min(psi, X.shape[0] // 2)
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, psi, 0), method=method, seed=0)
    mapper = model.mapper(device)

    def check(results: dict[str, Any]) -> str:
        different = int((results["ours"] != results[PROCESSOR]).sum())
        if different:
            raise Disagreement(f"{different} of {results[PROCESSOR].size} cells of the GPU differ from the processor's")
        return f"all {results[PROCESSOR].size} cells equal"

    def told() -> str:
        what = ", ".join(f"{key} {value}" for key, value in device.evidence().items())
        return f"{what}; {mapper.explain()}; without transfers {alone(mapper, X):.3g} us/row"

    return Comparison(
        Side("ours", lambda: mapper.cells(X).codes, calibrate=told),
        [Side(PROCESSOR, lambda: model.cells(X, options.threads).codes, warm=lambda: model.cells(X[:16]))],
        check,
        rows=X.shape[0],
    )


def alone(mapper: Mapper, X: Rows) -> float:
    """Return the microseconds that a row takes if rows lie on the device and cells stay there: the median of five."""
    device = mapper.device
    X = X[: mapper.rows_at_once()]
    rows = device.put(X) if isinstance(X, np.ndarray) else device.put_dense(X)
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        device.get(cast(DeviceArray, mapper.block(rows))[-1:, -1:])  # waits for all of them
        seconds.append(time.perf_counter() - begin)
    return 1e6 * float(np.median(seconds[1:])) / int(X.shape[0])


def rows_of(name: str, options: Options) -> Rows:
    """Rows of a data set, or uniform ones."""
    most = QUICK_ROWS if options.quick else ROWS
    if name in MADE_UP:
        return np.random.default_rng(0).random((most, MADE_UP[name]))
    from benchmarks.data import load  # the pipeline's packages, which a machine with a GPU may lack

    X = load(name, options).X
    return take_rows(X, np.sort(np.random.default_rng(0).permutation(X.shape[0])[:most]))
