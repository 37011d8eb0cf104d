"""One-hot features of tables, encoded and mapped: as CSR against dense."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.tables import CATEGORY, NUMBER, ColumnPlan, Encoder, RawTable
from ikmap.tables.encoders import Encoding, Number, OneHot

TITLE = "One-hot features"
ABOUT = (
    "cells of rows with four numbers and two columns of words, one-hot: encoded and mapped as CSR against dense, on "
    "one thread"
)

NUMBERS, WORDS, T = 4, 2, 100
LEVELS = (4, 6, 10, 16, 32, 128, 1024)
PSI = {"iforest": 256, "anne": 64}
SAMPLE, BLOCK_BYTES = 4000, 16 << 20
MOST_ROWS = 20_000


def cases(options: Options) -> Iterator[Case]:
    for method in PSI:
        for levels in LEVELS[:2] if options.quick else LEVELS:
            share = (NUMBERS + WORDS) / (NUMBERS + WORDS * levels)
            name = f"{method}, {levels} words, {share:.2g} of the features"
            yield Case(name, partial(encode_and_map, method, levels, options))


def encode_and_map(method: str, levels: int, options: Options) -> Comparison:
    encoder, table = encoder_of(levels), table_of(levels, 2000 if options.quick else MOST_ROWS)
    psi = 8 if options.quick else PSI[method]
    sample = encoder.encode(table.take(slice(0, SAMPLE)))
    model = fit_partitions(sample, draw_subsamples(len(sample), T, psi, 0), method=method, seed=0)
    step = max(1, BLOCK_BYTES // (8 * len(encoder.names)))
    blocks = [table.take(slice(k, k + step)) for k in range(0, table.rows, step)]

    def cells(encode: Any) -> np.ndarray:
        return np.concatenate([np.asarray(model.cells(encode(block), 1).codes) for block in blocks])

    def check(results: dict[str, Any]) -> str:
        if not np.array_equal(results["CSR"], results["dense"]):
            raise Disagreement("the cells differ")
        return f"{len(encoder.names)} features, of a row {encoder.entries} are not 0"

    return Comparison(
        Side("CSR", partial(cells, encoder.encode_sparse)),
        [Side("dense", partial(cells, encoder.encode))],
        check,
        rows=table.rows,
    )


def encoder_of(levels: int) -> Encoder:
    shown = words_of(levels)
    one, words = np.array([0.0, 1.0]), OneHot(shown, np.arange(levels), shown)
    encodings: list[Encoding] = [Number(0.0, False, one, one)] * NUMBERS + [words] * WORDS
    kinds = [NUMBER] * NUMBERS + [CATEGORY] * WORDS
    return Encoder(tuple(ColumnPlan(str(j), kind) for j, kind in enumerate(kinds)), tuple(encodings))


def table_of(levels: int, rows: int) -> RawTable:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, levels, (rows, WORDS)).astype(np.float64)
    values = np.asfortranarray(np.column_stack([rng.random((rows, NUMBERS)), codes]))
    return RawTable(values, (*[None] * NUMBERS, *[words_of(levels)] * WORDS))


def words_of(levels: int) -> tuple[str, ...]:
    return tuple(f"w{k:05d}" for k in range(levels))
