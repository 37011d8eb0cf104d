"""No room left: one line that names what was being written, nothing half-written counts, the same command goes on."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flows.batch
from cluster import ClusterHandle
from flows.cli import run_command
from flows.options.batch import BatchOptions
from pipeline.errors import writing
from tests.support.one_process import Command, commands_find, forget, one_process
from tests.system.test_batch import environment, results, write_libsvm

pytestmark = pytest.mark.system


def no_room(filename: str | None = None) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", *([filename] if filename else []))


def test_the_error_names_what_was_being_written() -> None:
    with pytest.raises(OSError, match="No space left") as error, writing("the/store"):
        raise no_room()
    assert error.value.filename == "the/store"
    assert pickle.loads(pickle.dumps(error.value)).filename == "the/store"  # as it comes from a worker
    with pytest.raises(OSError, match="No space left") as error, writing("outer"):
        raise no_room("inner")
    assert error.value.filename == "inner"
    with pytest.raises(OSError, match="No space left") as error, writing("array"):
        raise OSError("100 requested and 0 written")  # NumPy
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, "array")
    with pytest.raises(OSError, match="other") as error, writing("nothing"):
        raise OSError("other")
    assert error.value.filename is None


def test_what_went_wrong_first_is_named() -> None:
    def work() -> None:
        try:
            raise no_room("run/store/data")
        finally:
            raise no_room()  # of a report that is written in any case

    with pytest.raises(OSError, match="No space left") as error, writing("run"):
        work()
    assert error.value.filename == "run/store/data"


WRITERS = """
import resource, sys
import numpy as np
from pathlib import Path
from ikmap.cells import Cells
from ikmap.learners.rows import Block
from pipeline.rows.cell_blocks import SpooledBlocks
from pipeline.storage.durable import write_arrays
from pipeline.training.engine import Folder
from pipeline.storage.store import Store

folder = Path(sys.argv[1])
store = Store(folder / "store.zarr")
store.create()
store.create_sharded("cells", (20000,), np.float64, shard_rows=20000, chunk_rows=20000)
noise = np.random.default_rng(0).random(20000)
codes = np.random.default_rng(0).integers(0, 8, (20000, 4)).astype(np.int32)
offsets = np.arange(5, dtype=np.int64) * 8
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
for work in (
    lambda: store.write_group("group", {"values": noise}, {}),
    lambda: store.write_shards("cells", 0, noise),
    lambda: write_arrays(folder / "checkpoint.npz", {"noise": noise}),
    lambda: Folder(folder).write("own-000", 1, {"noise": noise}),
    lambda: SpooledBlocks([Block(Cells(codes, offsets), noise.astype(np.int32))], offsets),
):
    try:
        work()
    except OSError as error:
        print(error.filename)
print(store.attributes("group"), sorted(path.name for path in folder.iterdir()))
"""


def test_every_writer_names_its_file(tmp_path: Path) -> None:
    """With a limit on the size of files in place of a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", WRITERS, str(tmp_path)], env={**environment(), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *named, left = done.stdout.splitlines()
    store = tmp_path / "store.zarr"
    assert named == [
        f"{store}/group", f"{store}/cells", str(tmp_path / "checkpoint.npz"),
        str(tmp_path / "own-000-00001.npz"), str(tmp_path),
    ]  # fmt: skip
    assert left == "None ['store.zarr']"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 200 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root and mount")
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_same_command_goes_on_when_there_is_room(
    small_disk: Path,
    tmp_path: Path,
    two_workers: ClusterHandle,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The whole command, but for starting its cluster; workers are processes of their own."""
    monkeypatch.setattr("flows.prefect.configured.api_is_configured", lambda: False)
    file = write_libsvm(tmp_path / "train.libsvm", 3000)
    options = ["--input", str(file), "--t", "40", "--psi", "8", "--no-dask-report"]
    options += ["--partitioner", "anne", "--learner", "svm,ogd", "--run-dir"]

    def again(folder: Path) -> tuple[int | None, str]:
        forget()
        with commands_find(two_workers):
            return run_command(flows.batch.main, [*options, str(folder)]), capfd.readouterr().err

    run_directory = small_disk / "run"
    for room in ("200k", "400k"):
        subprocess.run(["mount", "-o", f"remount,size={room}", str(small_disk)], check=True)
        status, said = again(run_directory)
        assert status == 2
        assert said.splitlines()[-1].startswith(f"error: {run_directory}"), said
        manifest = run_directory / "manifest.json"
        assert not manifest.exists() or json.loads(manifest.read_text())["status"] == "unfinished"
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    status, said = again(run_directory)
    assert status == 0, said
    with one_process():
        Command(BatchOptions(input=str(file), t=40, psi=8, partitioner="anne", learner=("svm", "ogd"))).run(
            tmp_path / "other"
        )
    assert results(run_directory) == results(tmp_path / "other")
