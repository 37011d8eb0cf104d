"""Fitted models as plain parts: round trips and the content hash."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ikmap.model import KINDS, Model, from_parts
from ikmap.partitioners import draw_subsamples, fit_partitions
from tests.support.point_sets import DATA, LAYOUTS, N

CASES = [("anne", "dense"), ("anne", "csr"), ("iforest", "dense")]


def _model(method: str, layout: str) -> Model:
    X = LAYOUTS[layout](DATA["sparse"])
    return fit_partitions(X, draw_subsamples(N, 4, 8, 0), method=method, seed=0)


@pytest.mark.parametrize(("method", "layout"), CASES)
def test_round_trip(method: str, layout: str) -> None:
    model = _model(method, layout)
    metadata = json.loads(json.dumps(model.metadata()))
    arrays = {name: array.copy() for name, array in model.arrays().items()}
    again = from_parts(metadata, arrays)
    assert type(again) is type(model)
    assert again.content_hash == model.content_hash
    assert again.metadata() == model.metadata()
    assert again.nbytes == model.nbytes == sum(array.nbytes for array in arrays.values()) > 0
    for convert in LAYOUTS.values():
        X = convert(DATA["sparse"])
        np.testing.assert_array_equal(again.cells(X).codes, model.cells(X).codes)  # type: ignore[attr-defined]


def test_parts_of_a_sparse_field() -> None:
    model = _model("anne", "csr")
    assert sorted(model.arrays()) == ["centers.data", "centers.indices", "centers.indptr", "members"]
    assert model.metadata()["centers"] == {"csr_shape": [model.arrays()["centers.indptr"].size - 1, 40]}


@pytest.mark.parametrize(("method", "layout"), CASES)
def test_every_entry_counts_in_the_hash(method: str, layout: str) -> None:
    model = _model(method, layout)
    hashes = {model.content_hash}
    for name, array in model.arrays().items():
        for position in (0, array.size - 1):
            changed = array.copy()
            flat = changed.reshape(-1).view(np.uint8)
            flat[position * array.itemsize] ^= 1
            arrays = model.arrays() | {name: changed}
            try:
                other = from_parts(model.metadata(), arrays)
            except ValueError:  # scipy refuses the broken row pointers
                assert name == "centers.indptr"
                continue
            assert other.content_hash not in hashes, name
            hashes.add(other.content_hash)


def test_metadata_and_shape_count_in_the_hash() -> None:
    model = _model("iforest", "dense")
    deeper = from_parts({**model.metadata(), "max_depth": "log2"}, model.arrays())
    assert deeper.content_hash != model.content_hash
    flat = _model("anne", "dense")
    members = flat.arrays()["members"]
    reshaped = from_parts(flat.metadata(), flat.arrays() | {"members": members.reshape(8, 4)})
    assert reshaped.content_hash != flat.content_hash


def test_hash_does_not_depend_on_the_memory_layout() -> None:
    model = _model("anne", "dense")
    arrays = {name: np.asfortranarray(array) for name, array in model.arrays().items()}
    assert from_parts(model.metadata(), arrays).content_hash == model.content_hash


def test_unknown_kind_and_version() -> None:
    model = _model("anne", "dense")
    assert KINDS["anne"] is type(model)
    with pytest.raises(ValueError, match=r"unknown kind of model 'wood'; known are .*anne.*iforest"):
        from_parts({**model.metadata(), "kind": "wood"}, model.arrays())
    with pytest.raises(ValueError, match="unknown kind of model None"):
        from_parts({}, model.arrays())
    with pytest.raises(ValueError, match="model 'anne' has version 99, this software reads 1"):
        from_parts({**model.metadata(), "version": 99}, model.arrays())
