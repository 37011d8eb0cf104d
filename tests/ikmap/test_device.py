"""Cells on a device: those of the definition, on stand-ins for a GPU everywhere and on one where there is one."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.device import LOOSE_ERROR, LOOSE_PRODUCTS, Device, Gpu, Host, find_gpu
from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.partitioners.mapper import LEAST_BUDGET
from ikmap.partitioners.voronoi import device_rows, fit_voronoi, fused, products
from ikmap.partitioners.voronoi.fused import Fused
from ikmap.partitioners.voronoi.products import Products
from ikmap.partitioners.voronoi.scores import DenseScores
from ikmap.partitioners.voronoi.search import choose_scores
from ikmap.rows import as_csr, as_dense
from tests.naive.partitioners import voronoi_cells
from tests.support.devices import Crowded, KernelsOnCpu, Strict
from tests.support.point_sets import DATA, LAYOUTS, N, queries_of

pytestmark = pytest.mark.slow

T, PSI = 5, 8
DEVICES = {"numpy": Host, "strict": Strict}
SEVERAL = ["continuous", "integer grid", "near ties", "sparse", "far outlier", "squares overflow", "tiny beside units"]
GPUS = ("sm_80", "sm_90", "sm_120")
EVIDENCE = "IKMAP_GPU_EVIDENCE"
"""Where tests on a GPU leave what they found: a file of one JSON object a line."""


def is_dense(X: np.ndarray) -> bool:
    """Whether its rows are scored by all their coordinates."""
    return isinstance(choose_scores(X), DenseScores)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelsOnCpu]:
    """Blocks of few threads, each of which takes a processor its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "THREADS", 16)
        yield KernelsOnCpu(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", DATA)
def test_voronoi_cells_are_those_of_the_definition(name: str, device: str, layout: str) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 3)
    mapper = fit_voronoi(LAYOUTS[layout](X), draws).mapper(DEVICES[device]())
    assert isinstance(mapper, Products)
    cells = mapper.cells(LAYOUTS[layout](queries))
    assert cells.codes.dtype == np.int32
    np.testing.assert_array_equal(cells.codes, voronoi_cells(queries, X, draws))


@pytest.mark.parametrize("name", [name for name in DATA if is_dense(DATA[name])])
def test_the_kernel_gives_them(name: str, kernels: KernelsOnCpu) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(X.shape[0], T, PSI, 4)
    mapper = fit_voronoi(X, draws).mapper(kernels)
    assert isinstance(mapper, Fused)
    np.testing.assert_array_equal(mapper.cells(queries).codes, voronoi_cells(queries, X, draws))


def test_the_kernel_in_blocks_as_large_as_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "THREADS", 128)
    X = DATA["near ties"]
    queries, draws = np.tile(queries_of(X), (4, 1)), draw_subsamples(N, T, N, 4)
    codes = fit_voronoi(X, draws).mapper(KernelsOnCpu(tmp_path)).cells(queries).codes
    np.testing.assert_array_equal(codes, np.tile(voronoi_cells(queries_of(X), X, draws), (4, 1)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "device"), [*((name, "numpy") for name in DATA), *((name, "strict") for name in SEVERAL)]
)
def test_iforest_cells(name: str, device: str, layout: str) -> None:
    X, queries = LAYOUTS[layout](DATA[name]), LAYOUTS[layout](queries_of(DATA[name]))
    model = fit_partitions(X, draw_subsamples(X.shape[0], T, PSI, 5), method="iforest", seed=5)
    np.testing.assert_array_equal(model.mapper(DEVICES[device]()).cells(queries).codes, model.cells(queries).codes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SEVERAL)
def test_any_sizes_of_blocks_and_pieces_give_them(
    name: str, layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, partitionings, centres and close pairs a few at a time; more members than a tile, rows than a block."""
    monkeypatch.setattr(products, "LEAST_PIECE", 1)
    monkeypatch.setattr(device_rows, "CENTRE_BYTES", 4 * 7 * DATA[name].shape[1])
    X, t, psi = DATA[name], 11, N
    queries, draws = np.tile(queries_of(X), (2, 1)), draw_subsamples(N, t, psi, 2)
    model = fit_voronoi(LAYOUTS[layout](X), draws)
    expected = np.tile(voronoi_cells(queries_of(X), X, draws), (2, 1))
    np.testing.assert_array_equal(model.mapper(kernels).cells(queries).codes, expected)
    few = model.mapper(Host(), budget=1 << 16)
    assert isinstance(few, Products)
    assert 1 < few.rows_at_once() < 50
    np.testing.assert_array_equal(few.cells(LAYOUTS[layout](queries)).codes, expected)
    np.testing.assert_array_equal(model.mapper(Host(), budget=1).cells(queries[:7]).codes, expected[:7])


@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_rows_that_lie_on_the_device(method: str) -> None:
    X, device = DATA["continuous"], Strict()
    model = fit_partitions(X, draw_subsamples(N, T, PSI, 6), method=method, seed=6)
    expected = model.cells(X).codes
    np.testing.assert_array_equal(model.mapper(device).cells(device.put(X)).codes, expected)
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        model.mapper(device).cells(device.put(X[:, :3]))


def test_rows_in_another_order_in_memory(kernels: KernelsOnCpu) -> None:
    """As an array on a device may be: the host's are put in order before."""
    X = DATA["continuous"]
    model = fit_voronoi(X, draw_subsamples(N, T, PSI, 6))
    mapper = model.mapper(kernels)
    np.testing.assert_array_equal(mapper.device.get(mapper.block(np.asfortranarray(X))), model.cells(X).codes)


@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_a_device_that_is_full_gets_fewer_rows(method: str) -> None:
    X = np.tile(DATA["continuous"], (20, 1))
    model = fit_partitions(X, draw_subsamples(len(X), T, PSI, 7), method=method, seed=7)
    device = Crowded(1 << 30)
    mapper = model.mapper(device)
    device.room = 8 * 4 * 100
    np.testing.assert_array_equal(mapper.cells(X).codes, model.cells(X).codes)
    assert device.refused == 4  # 1200, 600, 300 and 150 rows
    device.room = 0
    with pytest.raises(MemoryError):
        mapper.cells(X)


class Loose(Host):
    """Products of numbers cut to TF32's ten bits."""

    def __init__(self, error: float) -> None:
        self.product_error = error
        self.xp = SimpleNamespace(**{name: getattr(np, name) for name in dir(np)})
        self.xp.matmul = lambda a, b: np.matmul(_cut(a), _cut(b))

    def put_csr(self, rows: sp.csr_array) -> Any:
        dense = rows.toarray()
        return LooseMatrix(dense) if rows.dtype == np.float32 else rows


class LooseMatrix:
    """What a device's sparse matrix has to offer."""

    def __init__(self, dense: np.ndarray) -> None:
        self.toarray = lambda: dense

    def __matmul__(self, right: np.ndarray) -> Any:
        return np.matmul(_cut(self.toarray()), _cut(right))


def _cut(values: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


WIDE = {"dense": as_dense, "csr": lambda X: as_csr(np.pad(X, ((0, 0), (0, 200))))}
"""Rows that are scored by all their coordinates, and by those that are not 0."""


@pytest.mark.parametrize("layout", WIDE)
def test_products_of_fewer_bits_are_allowed_for(layout: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    # Scores that float32 holds exactly, of rows of twelve bits.
    small = rng.integers(-600, 600, size=(400, 2)).astype(float)
    odd = np.c_[2.0 * rng.integers(1024, 1400, size=4000) + 1.0, rng.integers(-600, 600, size=4000)]
    for points, queries in ((X, X), (small, odd)):
        model, rows = fit_voronoi(WIDE[layout](points), draw_subsamples(400, 20, 64, 0)), WIDE[layout](queries)
        assert isinstance(choose_scores(model.centers), DenseScores) == (layout == "dense")
        expected = model.cells(rows).codes
        np.testing.assert_array_equal(model.mapper(Loose(LOOSE_ERROR)).cells(rows).codes, expected)
        assert (model.mapper(Loose(0.0)).cells(rows).codes != expected).any()


@pytest.mark.parametrize("layout", WIDE)
def test_whole_numbers_are_trusted_as_far_as_float32_goes(
    layout: str, kernels: KernelsOnCpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near rows are not settled again, ties or not; far ones are: their scores are rounded."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, size=(60, 2)).astype(float)
    far, draws = X + np.array([1e6, 0.0]), draw_subsamples(60, T, 30, 0)
    model = fit_voronoi(WIDE[layout](X), draws)
    for device in (Host(), kernels):
        codes = model.mapper(device).cells(WIDE[layout](far)).codes
        np.testing.assert_array_equal(codes, voronoi_cells(far, X, draws))
    monkeypatch.setattr(Products, "_settle", None)
    codes = model.mapper(Host()).cells(WIDE[layout](X)).codes
    np.testing.assert_array_equal(codes, voronoi_cells(X, X, draws))


def test_the_kernel_is_for_short_dense_rows(kernels: KernelsOnCpu) -> None:
    assert fused.fits(64, 65_535)
    assert not fused.fits(65, 1)
    assert not fused.fits(1, 65_536)
    draws = draw_subsamples(N, T, PSI, 0)
    assert isinstance(fit_voronoi(np.ones((N, 65)), draws).mapper(kernels), Products)
    assert isinstance(fit_voronoi(sp.csr_array(DATA["sparse"]), draws).mapper(kernels), Products)
    assert isinstance(fit_voronoi(DATA["continuous"], draws).mapper(Host()), Products)


def test_what_it_takes_is_told() -> None:
    model = fit_voronoi(DATA["continuous"], draw_subsamples(N, T, PSI, 0))
    mapper = model.mapper(Strict(free=1 << 21))
    assert mapper.budget == LEAST_BUDGET
    assert model.mapper(Strict(free=1 << 31)).budget == 1 << 30
    assert model.mapper(Strict(free=1 << 40)).budget == model.mapper(Strict(), budget=1 << 40).budget == 1 << 33
    mapper = model.mapper(Strict(), budget=1 << 20)
    assert mapper.rows_at_once() == (1 << 20) // mapper.row_bytes
    assert f"{mapper.rows_at_once():,} rows at a time in 1 MB" in mapper.explain()
    assert model.mapper(Strict(), budget=1 << 40).rows_at_once() == 1 << 16


def test_kernels_on_the_processor_notice_a_barrier_that_some_threads_miss(tmp_path: Path) -> None:
    code = 'extern "C" __global__ void f(int* x) { if (threadIdx.x < MISSING) return; __syncthreads(); x[0] = 1; }'
    done = np.zeros(1, dtype=np.int32)
    KernelsOnCpu(tmp_path).compile(code, "f", {"MISSING": 0})((1, 1), (4,), (done,))
    assert done[0] == 1
    with pytest.raises(AssertionError, match="barrier"):
        KernelsOnCpu(tmp_path).compile(code, "f", {"MISSING": 2})((1, 1), (4,), (done,))


# --- compiled for GPUs that are not here


def options_of(defines: dict[str, int]) -> list[str]:
    """What a compiler is told on a GPU: by us, and by CuPy of its own accord."""
    cupy = cupy_like()
    Gpu(cupy).compile("", "", defines)
    return [*cupy.compiled[0][1], "-ftz=true"]


def by_nvcc(source: str, gpu: str, options: list[str], folder: Path) -> tuple[bytes, str]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc")
    (folder / "kernel.cu").write_text(source)
    command = [nvcc, "-cubin", "-Werror", "all-warnings", "-Xptxas", "-v", "-arch", gpu, *options, "kernel.cu"]
    done = subprocess.run([*command, "-o", "kernel.cubin"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)
    return (folder / "kernel.cubin").read_bytes(), done.stderr


def by_nvrtc(source: str, gpu: str, options: list[str], folder: Path) -> tuple[bytes, str]:  # noqa: ARG001
    needed = "needs CuPy with NVRTC"
    nvrtc = pytest.importorskip("cupy", reason=needed).cuda.nvrtc
    try:
        nvrtc.getVersion()
    except RuntimeError:  # the library is not there
        pytest.skip(needed)
    program = nvrtc.createProgram(source, "kernel.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"-arch={gpu}", *options])
    except nvrtc.NVRTCError as error:
        raise ValueError(nvrtc.getProgramLog(program)) from error
    return bytes(nvrtc.getCUBIN(program)), ""


COMPILERS = pytest.mark.parametrize("compiler", [by_nvcc, by_nvrtc])
"""Each gives the machine code of a kernel and what it says of it, or raises ValueError with what is wrong."""


@COMPILERS
@pytest.mark.parametrize(
    ("gpu", "n_features"),
    [*((GPUS[0], n) for n in (1, 17, 33, 41, 64)), *product(GPUS[1:], (64,))],
)
def test_the_kernel_compiles(gpu: str, n_features: int, compiler: Any, tmp_path: Path) -> None:
    code, said = compiler(fused.source(), gpu, options_of(fused.defines(n_features)), tmp_path)
    assert code.startswith(b"\x7fELF")
    assert fused.NAME.encode() in code
    if said:
        # A thread's rows fit into its registers, and a block's shared memory into what every GPU gives unasked.
        assert max(int(found) for found in re.findall(r"(\d+) bytes spill stores", said)) <= 16
        assert int(re.findall(r"(\d+) bytes smem", said)[0]) <= 48 << 10


@COMPILERS
def test_a_fault_in_a_kernel_is_told(compiler: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tile"):
        compiler(fused.source().replace("float4 tile[", "float4 tiles["), GPUS[-1], options_of({}), tmp_path)


# --- what is asked of CuPy


def cupy_like(available: bool = True) -> Any:
    """As much of CuPy as is asked before any array is made."""
    properties = {"name": b"A GPU", "major": 9, "minor": 0, "totalGlobalMem": 1 << 36}
    compiled: list[Any] = []

    def module(code: str, options: tuple[str, ...]) -> Any:
        compiled.append((code, options))
        return SimpleNamespace(get_function=lambda name: name)

    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: properties,
        memGetInfo=lambda: (300, 1 << 36),
        driverGetVersion=lambda: 13010,
        runtimeGetVersion=lambda: 12090,
    )
    return SimpleNamespace(
        __version__="14.2.0",
        cuda=SimpleNamespace(runtime=runtime, is_available=lambda: available),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 45),
        RawModule=module,
        compiled=compiled,
        asarray=np.asarray,
        asnumpy=np.asarray,
        matmul=np.matmul,
    )


def test_a_gpu_tells_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LOOSE_PRODUCTS:
        monkeypatch.delenv(name, raising=False)
    cupy = cupy_like()
    gpu = Gpu(cupy)
    assert gpu.evidence() == {
        "name": "A GPU",
        "compute_capability": "9.0",
        "memory_bytes": 1 << 36,
        "driver": "13.1",
        "runtime": "12.9",
        "cupy": "14.2.0",
    }
    assert gpu.free_bytes() == 345
    assert gpu.product_error == 0.0
    function: object = gpu.compile("code", "f", {"A": 1, "B": 2})
    assert function == "f"
    assert cupy.compiled == [("code", ("-std=c++17", "-DA=1", "-DB=2"))]
    monkeypatch.setenv("CUPY_TF32", "0")
    assert Gpu(cupy).product_error == 0.0
    monkeypatch.setenv("CUPY_TF32", "1")
    assert Gpu(cupy).product_error == LOOSE_ERROR


def test_what_a_pool_of_rmm_holds_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not in the driver's figure, and CuPy's own pool is then empty."""
    gpu, pool = Gpu(cupy_like()), SimpleNamespace(pool_size=lambda: 10_000)
    tracked = SimpleNamespace(get_upstream=lambda: pool)
    for resource, held in ((pool, 10_000), (tracked, 10_000), (SimpleNamespace(), 0)):
        mr = SimpleNamespace(get_current_device_resource=lambda resource=resource: resource)
        monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
        assert gpu.free_bytes() == 345 + held


def test_why_there_is_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    look = find_gpu.__wrapped__
    monkeypatch.setitem(sys.modules, "cupy", None)
    why = look()
    assert isinstance(why, str)
    assert "pip install 'ikmap[gpu]'" in why
    monkeypatch.setitem(sys.modules, "cupy", cupy_like(available=False))
    assert look() == "CuPy finds no CUDA device"
    broken = cupy_like()
    broken.cuda.runtime.getDevice = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "cupy", broken)
    assert look() == "the CUDA device cannot be used: division by zero"
    broken = cupy_like()
    broken.matmul = lambda *_: importlib.import_module("libcublas")
    monkeypatch.setitem(sys.modules, "cupy", broken)
    assert look() == "the CUDA device cannot be used: No module named 'libcublas'"
    broken.matmul = lambda a, b: np.matmul(a, b) * 0
    assert look() == "the CUDA device cannot be used: 1 + 1 is not 2 there"
    monkeypatch.setitem(sys.modules, "cupy", cupy_like())
    assert isinstance(look(), Gpu)


class Noted:
    """NumPy's namespace, which lets a function be called only as `other` has it."""

    def __init__(self, other: Any) -> None:
        self.other, self.names = other, set[str]()

    def __getattr__(self, name: str) -> Any:
        found, theirs = getattr(np, name), getattr(self.other, name)
        self.names.add(name)
        # A ufunc of CuPy tells no signature; ours are given arrays only.
        signature = inspect.signature(theirs) if inspect.isfunction(theirs) else None
        if signature is None:
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            signature.bind(*arguments, **named)
            return found(*arguments, **named)

        return called


def test_cupy_has_every_function_that_is_used(kernels: KernelsOnCpu) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy, though no GPU")
    for device in (Host(), kernels):
        noted = device.xp = Noted(cupy)
        for name in ("near ties", "sparse", "integer grid"):
            X = DATA[name]
            for layout in LAYOUTS.values():
                for method in ("anne", "iforest"):
                    model = fit_partitions(layout(X), draw_subsamples(N, T, PSI, 0), method=method, seed=0)
                    np.testing.assert_array_equal(model.mapper(device).cells(layout(X)).codes, model.cells(X).codes)
        del device.xp
        assert len(noted.names) > 15


# --- on a GPU


@pytest.fixture
def gpu() -> Device:
    found = find_gpu()
    if isinstance(found, str):
        pytest.skip(f"needs a GPU: {found}")
    return found


def leave(device: Device, what: str, **found: Any) -> None:
    """Add a line to the evidence, where it is wanted."""
    if path := os.environ.get(EVIDENCE):
        with Path(path).open("a") as file:
            file.write(json.dumps({"test": what, **device.evidence(), **found}) + "\n")


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["anne", "iforest"])
def test_cells_of_a_gpu(method: str, layout: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = mismatches = 0
    for kernel in (True, False):
        monkeypatch.setattr(fused, "MOST_FEATURES", 64 if kernel else 0)
        for X in DATA.values():
            queries = queries_of(X)
            draws = draw_subsamples(X.shape[0], T, PSI, 8)
            model = fit_partitions(LAYOUTS[layout](X), draws, method=method, seed=8)
            codes = model.mapper(gpu).cells(LAYOUTS[layout](queries)).codes
            expected = voronoi_cells(queries, X, draws) if method == "anne" else model.cells(queries).codes
            checked, mismatches = checked + codes.size, mismatches + int((codes != expected).sum())
    leave(gpu, f"{method}, {layout}", cells_checked=checked, mismatches=mismatches)
    assert mismatches == 0


@pytest.mark.gpu
@pytest.mark.parametrize("d", [8, 54, 200])
def test_many_rows_on_a_gpu(d: int, gpu: Device) -> None:
    rng = np.random.default_rng(d)
    X = rng.random((20_000, d))
    model = fit_voronoi(X, draw_subsamples(len(X), 100, 1024, 0))
    mapper = model.mapper(gpu)
    rows = slice(0, len(X), 10)
    mapper.cells(X)
    began = time.perf_counter()
    codes = mapper.cells(X).codes
    speed = len(X) / (time.perf_counter() - began)
    mismatches = int((codes[rows] != model.cells(X[rows]).codes).sum())
    leave(
        gpu,
        f"{d} columns",
        how=mapper.explain(),
        rows_per_second=speed,
        cells_checked=codes[rows].size,
        mismatches=mismatches,
    )
    assert mismatches == 0
