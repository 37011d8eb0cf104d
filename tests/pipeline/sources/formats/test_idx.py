"""Idx files, as MNIST comes: images in one file, labels in another that is found beside it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.sources import Sizes, Source
from pipeline.sources.formats.idx import IdxFile, label_urls
from tests.support.damaged_files import idx
from tests.support.one_process import Command, one_process, results, score_file
from tests.support.opening import opened

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (50, 4, 3), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 50, dtype=np.uint8)
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip


def write(
    folder: Path, images: Any = IMAGES, labels: Any = LABELS, end: str = "", name: str = "train-images-idx3-ubyte"
) -> str:
    """Write two files, as arrays or as bytes, and return the path of the images."""
    for what, content in (("images", images), ("labels", labels)):
        plain = content if isinstance(content, bytes) else idx(content)
        file = name if what == "images" else name.replace("images", "labels").replace("idx3", "idx1")
        (folder / (file + end)).write_bytes(PACK[end](plain))
    return str(folder / (name + end))


def read(source: Source) -> tuple[np.ndarray, Any]:
    blocks: list[Any] = [block for fragment in source.fragments() for block in source.read(fragment)]
    y = [block.y for block in blocks]
    return np.concatenate([block.X for block in blocks]), None if y[0] is None else np.concatenate(y)


def refused(url: str, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        read(opened(url, **options))
    said = str(error.value)
    assert "\n" not in said
    return said.replace(str(Path(url).parent) + "/", "")


@pytest.mark.parametrize("end", PACK)
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "t10k-images.idx3-ubyte", "e-letters-images-idx3-ubyte"])
def test_images_and_their_labels(end: str, name: str, tmp_path: Path) -> None:
    source = opened(write(tmp_path, end=end, name=name), sizes=Sizes(fragment=4000, block=1000))
    assert (source.format, source.n_columns, source.least_rows(), source.knows_rows) == ("idx", 12, 50, True)
    assert len(source.fragments()) == (1 if end else 2)
    X, y = read(source)
    assert X.dtype == np.float64
    assert np.array_equal(X, IMAGES.reshape(50, 12))
    assert np.array_equal(y, LABELS)
    fragment = source.fragments()[0]
    blocks = list(source.read(fragment))
    assert len(blocks) > 1
    later = list(source.read(fragment, skip=1))
    assert [block.first_line for block in later] == [block.first_line for block in blocks[1:]]
    assert np.array_equal(later[0].X, blocks[1].X)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_types(dtype: str, tmp_path: Path) -> None:
    values = np.arange(24).reshape(4, 2, 3).astype(dtype) - (dtype != "u1")
    X, _ = read(opened(write(tmp_path, values.astype(dtype), np.arange(4, dtype="i4"))))
    assert np.array_equal(X, values.reshape(4, 6))


def test_where_labels_are_looked_for() -> None:
    found = label_urls("s3://b/images/train-images-idx3-ubyte.gz")
    assert found[:2] == ["s3://b/images/train-labels-idx1-ubyte.gz", "s3://b/images/train-labels-idx1-ubyte"]
    assert label_urls("digits.idx")[0] == "digits-labels.idx"
    assert label_urls("d-idx2-float")[0] == "d-labels-idx1-float"


def test_by_name_by_content_and_as_asked(tmp_path: Path) -> None:
    (tmp_path / "odd-images").write_bytes(idx(IMAGES))
    (tmp_path / "odd-labels.gz").write_bytes(gzip.compress(idx(LABELS)))
    for format in ("auto", "idx"):
        source = opened(str(tmp_path / "odd-images"), format)
        assert isinstance(source.files[0], IdxFile)
        assert np.array_equal(read(source)[1], LABELS)
    (tmp_path / "a-images-idx3-ubyte").write_text("1,2,3\n")
    assert refused(str(tmp_path / "a-images-idx3-ubyte")).startswith("a-images-idx3-ubyte: not an idx file: it starts")


def test_labels_are_missing_or_not_wanted(tmp_path: Path) -> None:
    url = write(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    assert refused(url) == (
        "train-images-idx3-ubyte: found no labels, expected them beside it in train-labels-idx1-ubyte, compressed or "
        "not"
    )
    assert read(opened(url, require_label=False))[1] is None
    url = write(tmp_path)
    assert np.array_equal(read(opened(url, require_label=False))[1], LABELS)
    assert refused(url, label="digit") == (
        "train-images-idx3-ubyte: --label digit: the labels of idx files are found in train-labels-idx1-ubyte; leave "
        "--label out"
    )
    assert refused(url.replace("images-idx3", "labels-idx1")).startswith(
        "train-labels-idx1-ubyte: found one number a row, as in a file of labels, expected images; "
    )


def test_a_run_knows_when_either_file_has_changed(tmp_path: Path) -> None:
    before = opened(write(tmp_path)).identity()
    assert opened(write(tmp_path)).identity() == before
    assert opened(write(tmp_path, labels=LABELS[::-1].copy())).identity() != before
    assert opened(write(tmp_path, images=IMAGES[::-1].copy())).identity() != before


def header(code: int, *shape: int) -> bytes:
    return bytes([0, 0, code, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


DAMAGED: dict[str, tuple[bytes, str]] = {
    "magic": (b"\1" + idx(IMAGES)[1:], "not an idx file: it starts with b'\\x01\\x00\\x08\\x03'"),
    "type": (header(10, 50, 12) + bytes(600), "not an idx file: it starts with b'\\x00\\x00\\n\\x02'"),
    "no dimensions": (header(8) + bytes(600), "not an idx file: it starts with"),
    "header": (header(8, 50, 4, 3)[:9], "truncated: found 9 bytes, expected 3 dimensions"),
    "truncated": (idx(IMAGES)[:-1], "truncated: found"),
    "too long": (idx(IMAGES) + b"\0", "damaged: found"),
    "no rows": (header(8, 0, 4, 3), "found no rows, expected at least one"),
    "no columns": (header(8, 50, 0, 3), "found no columns, expected at least one"),
    "beyond any file": (header(14, *[2**32 - 1] * 3), "found the shape (4294967295, 4294967295, 4294967295), expected"),
    "very wide": (header(8, 1, 2**31, 8), "truncated: found"),
    "not finite": (idx(np.full((50, 2), np.nan, dtype="f4")), "row 1, column 1: found nan, expected a finite number"),
}


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("what", DAMAGED)
def test_damage(what: str, end: str, tmp_path: Path) -> None:
    content, said = DAMAGED[what]
    if what == "very wide" and end:
        said = "found a row of 137,438,953,472 bytes, expected at most"
    url = write(tmp_path, content, LABELS[:1] if what == "very wide" else LABELS, end=end, name="a-images-idx3-ubyte")
    assert refused(url, format="idx").startswith(f"a-images-idx3-ubyte{end}: {said}")


@pytest.mark.parametrize("end", ["", ".gz"])
def test_labels_that_do_not_fit(end: str, tmp_path: Path) -> None:
    url = write(tmp_path, labels=LABELS[:49], end=end)
    images, labels = f"train-images-idx3-ubyte{end}", f"train-labels-idx1-ubyte{end}"
    assert refused(url) == f"{labels}: found 49 labels, expected 50, one for each row of {images}"
    url = write(tmp_path, labels=RNG.integers(0, 2, (50, 2), dtype=np.uint8), end=end)
    assert refused(url) == f"{labels}: found the shape (50, 2), expected one label a row"
    url = write(tmp_path, labels=idx(LABELS)[:-5], end=end)
    assert refused(url).startswith(f"{labels}: truncated: found ")
    url = write(tmp_path, labels=idx(LABELS) + b"more", end=end)
    assert refused(url).startswith(f"{labels}: damaged: found ")


def test_a_checksum_behind_the_last_value_is_verified(tmp_path: Path) -> None:
    url = write(tmp_path, end=".gz")
    packed = bytearray(Path(url).read_bytes())
    packed[-7] ^= 1
    Path(url).write_bytes(packed)
    assert refused(url).startswith("train-images-idx3-ubyte.gz: damaged: CRC check failed")


def test_a_run_gives_what_it_gives_of_npy(tmp_path: Path) -> None:
    """The same cells, models and predictions; and a scored file."""
    images = RNG.integers(0, 4, (160, 4, 3), dtype=np.uint8)
    labels = (images[:, 0, 0] + images[:, 1, 2] > 3).astype(np.uint8)
    url = write(tmp_path, images, labels, end=".gz")
    np.save(tmp_path / "a.npy", np.column_stack([images.reshape(160, 12), labels]))
    runs = []
    with one_process():
        for k, given in enumerate((url, str(tmp_path / "a.npy"))):
            options = BatchOptions(input=given, partitioner="iforest", t=5, psi=4, learner=("ogd",))
            Command(options).run(tmp_path / f"run{k}")
            runs.append(results(tmp_path / f"run{k}"))
        assert runs[0].keys() == runs[1].keys()
        assert {key for key in runs[0] if runs[0][key] != runs[1][key]} == set()
        test = write(tmp_path, images[:40], labels[:40], name="t10k-images-idx3-ubyte")
        scored = score_file(ScoreOptions(model=str(tmp_path / "run0"), input=test, output=str(tmp_path / "out.csv")))
        assert scored["rows"] == 40
