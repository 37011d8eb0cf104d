"""Devices, which hold arrays and compute on them: the only module that distinguishes CuPy from NumPy.

Code that maps rows on a device asks it for a namespace of functions (the array API standard) and for arrays that lie
there; nothing else of it depends on which device that is.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import EllipsisType, ModuleType
from typing import Protocol, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array
from ikmap.json_values import JsonObject

type Kernel = Callable[[tuple[int, ...], tuple[int, ...], tuple[object, ...]], None]
"""A compiled kernel, called with the grid, the block and the arguments."""

LOOSE_PRODUCTS = ("CUPY_TF32", "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION")
"""Environment variables by which a user lets float32 products be computed with fewer bits."""
LOOSE_ERROR = 2.0**-8
"""Relative to the lengths of both factors: more than TF32's 10 bits can be off."""


type Index = int | slice | EllipsisType | DeviceArray | None
type Operand = DeviceArray | float
type Shape = tuple[int, ...]
type Kind = type[np.generic] | np.dtype[np.generic]


class DeviceArray(Protocol):
    """An array of the array API standard, from NumPy or CuPy."""

    @property
    def shape(self) -> Shape: ...
    def __getitem__(self, key: Index | tuple[Index, ...], /) -> DeviceArray: ...
    def __int__(self) -> int: ...
    def __neg__(self) -> DeviceArray: ...
    def __invert__(self) -> DeviceArray: ...
    def __add__(self, other: Operand, /) -> DeviceArray: ...
    def __sub__(self, other: Operand, /) -> DeviceArray: ...
    def __mul__(self, other: Operand, /) -> DeviceArray: ...
    def __rmul__(self, other: Operand, /) -> DeviceArray: ...
    def __mod__(self, other: Operand, /) -> DeviceArray: ...
    def __floordiv__(self, other: Operand, /) -> DeviceArray: ...
    def __pow__(self, other: Operand, /) -> DeviceArray: ...
    def __and__(self, other: DeviceArray, /) -> DeviceArray: ...
    def __or__(self, other: DeviceArray, /) -> DeviceArray: ...
    def __lt__(self, other: Operand, /) -> DeviceArray: ...
    def __le__(self, other: Operand, /) -> DeviceArray: ...
    def __gt__(self, other: Operand, /) -> DeviceArray: ...
    def __eq__(self, other: Operand, /) -> DeviceArray: ...  # type: ignore[override]
    def __ne__(self, other: Operand, /) -> DeviceArray: ...  # type: ignore[override]


class DeviceCSR(Protocol):
    """A CSR matrix on a device."""

    def __matmul__(self, other: DeviceArray, /) -> DeviceArray: ...


class CuPyArray(DeviceArray, Protocol):
    """An array of CuPy."""

    def __setitem__(self, key: DeviceArray, value: DeviceArray, /) -> None: ...
    def get(self, *, out: Array) -> Array: ...
    def set(self, array: Array, /) -> None: ...


class Namespace(Protocol):
    """The functions of the array API standard that this package calls."""

    float32: Kind
    float64: Kind
    int32: Kind
    int64: Kind
    inf: float

    def abs(self, x: DeviceArray, /) -> DeviceArray: ...
    def all(self, x: DeviceArray, /, *, axis: int, keepdims: bool = False) -> DeviceArray: ...
    def argmin(self, x: DeviceArray, /, *, axis: int) -> DeviceArray: ...
    def argsort(self, x: DeviceArray, /, *, axis: int) -> DeviceArray: ...
    def astype(self, x: DeviceArray, dtype: Kind, /, *, copy: bool = True) -> DeviceArray: ...
    def broadcast_to(self, x: DeviceArray, /, shape: Shape) -> DeviceArray: ...
    def concat(self, arrays: Sequence[DeviceArray], /, *, axis: int = 0) -> DeviceArray: ...
    def count_nonzero(self, x: DeviceArray, /, *, axis: int) -> DeviceArray: ...
    def cumulative_sum(self, x: DeviceArray, /) -> DeviceArray: ...
    def empty(self, shape: Shape, *, dtype: Kind) -> DeviceArray: ...
    def full_like(self, x: DeviceArray, /, fill_value: float) -> DeviceArray: ...
    def matmul(self, x1: DeviceArray, x2: DeviceArray, /) -> DeviceArray: ...
    def matrix_transpose(self, x: DeviceArray, /) -> DeviceArray: ...
    def max(self, x: DeviceArray, /) -> DeviceArray: ...
    def nonzero(self, x: DeviceArray, /) -> tuple[DeviceArray, ...]: ...
    def reshape(self, x: DeviceArray, /, shape: Shape) -> DeviceArray: ...
    def round(self, x: DeviceArray, /) -> DeviceArray: ...
    def sqrt(self, x: DeviceArray, /) -> DeviceArray: ...
    def sum(self, x: DeviceArray, /, *, axis: int, keepdims: bool = False) -> DeviceArray: ...
    def take(self, x: DeviceArray, indices: DeviceArray, /, *, axis: int | None = None) -> DeviceArray: ...
    def take_along_axis(self, x: DeviceArray, indices: DeviceArray, /, *, axis: int) -> DeviceArray: ...
    def where(self, condition: DeviceArray, x1: Operand, x2: Operand, /) -> DeviceArray: ...
    def zeros(self, shape: Shape, *, dtype: Kind) -> DeviceArray: ...


class CuPy(Namespace, Protocol):
    """The package CuPy, as far as it is used here."""

    cuda: ModuleType
    __version__: str

    def empty(self, shape: Shape, *, dtype: Kind) -> CuPyArray: ...
    def zeros(self, shape: Shape, *, dtype: Kind) -> CuPyArray: ...
    def asnumpy(self, array: DeviceArray | Array, /) -> Array: ...
    def get_default_memory_pool(self) -> MemoryPool: ...
    def RawModule(self, *, code: str, options: tuple[str, ...]) -> RawModule: ...


class MemoryPool(Protocol):
    """CuPy's pool of device memory."""

    def free_bytes(self) -> int: ...


class RawModule(Protocol):
    """CUDA C that CuPy has compiled."""

    def get_function(self, name: str) -> RawKernel: ...


class RawKernel(Protocol):
    """A kernel of CuPy."""

    max_dynamic_shared_size_bytes: int

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[object, ...], *, shared_mem: int = 0
    ) -> None: ...


class Device(ABC):
    """A place for arrays.

    Attributes
    ----------
    xp : namespace
        Functions of the array API standard for arrays that lie here.
    name : str
        For people.
    product_error : float
        By how much more than the roundoff of float32 a product of float32 matrices may be off, relative to
        the lengths of the factors.
    shared_bytes : int
        Shared memory that a block of threads of a kernel can have; 0 on a device that runs no kernels.
    """

    xp: Namespace
    name: str
    product_error: float = 0.0
    shared_bytes: int = 0

    @abstractmethod
    def put(self, array: Array) -> DeviceArray:
        """Return a copy of an array on this device."""

    @abstractmethod
    def get(self, array: DeviceArray | Array) -> Array:
        """Return an array of this device as a NumPy array."""

    def get_into(self, array: DeviceArray | Array, out: Array) -> None:
        """Copy an array of this device, row after row in memory, to a NumPy array of the same type and shape."""
        out[...] = self.get(array)

    @abstractmethod
    def put_csr(self, rows: sp.csr_array) -> DeviceCSR:
        """Return a CSR matrix on this device, with ``@`` for a matrix of the device."""

    def put_dense(self, rows: sp.csr_array) -> DeviceArray:
        """Return sparse rows as a dense array on this device, row after row in memory."""
        return self.put(rows.toarray())

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the bytes of memory that can be allocated now."""

    def compile(self, source: str, name: str, defines: Mapping[str, int], shared: int = 0) -> Kernel:
        """Compile a kernel in CUDA C, on a device that has ``shared_bytes``.

        Parameters
        ----------
        source, name : str
        defines : mapping
            Names that the source uses, and their values.
        shared : int
            Bytes of shared memory that each block gets beside what the source declares with a size.
        """
        raise NotImplementedError(f"{self.name} runs no kernels: {name}, {len(source)}, {len(defines)}, {shared}")

    def evidence(self) -> JsonObject:
        """Return JSON values on the device for the record of a run."""
        return {"name": self.name}


class Host(Device):
    """The processor of this machine, through NumPy, in place of a device."""

    xp = cast(Namespace, np)
    name = "processor"

    def put(self, array: Array) -> DeviceArray:
        return cast(DeviceArray, array)

    def get(self, array: DeviceArray | Array) -> Array:
        return cast("Array", array)

    def put_csr(self, rows: sp.csr_array) -> sp.csr_array:
        return rows

    def free_bytes(self) -> int:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


class Gpu(Device):
    """The current CUDA device, through CuPy.

    Parameters
    ----------
    cupy : module
        The package, or what stands for it.
    """

    xp: CuPy

    def __init__(self, cupy: CuPy) -> None:
        self.xp = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
        name = properties["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self.product_error = LOOSE_ERROR if any(os.environ.get(v, "0") != "0" for v in LOOSE_PRODUCTS) else 0.0

    def put(self, array: Array) -> DeviceArray:
        # CuPy's asarray copies the array on the host first.
        here = self.xp.empty(array.shape, dtype=array.dtype)
        if array.size:
            here.set(np.ascontiguousarray(array))
        return here

    def get(self, array: DeviceArray | Array) -> Array:
        return self.xp.asnumpy(array)

    def get_into(self, array: DeviceArray | Array, out: Array) -> None:
        cast(CuPyArray, array).get(out=out)

    def put_dense(self, rows: sp.csr_array) -> DeviceArray:
        # CuPy's toarray sorts the entries first.
        n, d = rows.shape
        place = np.repeat(np.arange(n, dtype=np.int64) * d, np.diff(rows.indptr)) + rows.indices
        dense = self.xp.zeros((n * d,), dtype=rows.dtype)
        if place.size:
            dense[self.put(place)] = self.put(rows.data)
        return self.xp.reshape(dense, (n, d))

    def put_csr(self, rows: sp.csr_array) -> DeviceCSR:
        from cupyx.scipy.sparse import csr_matrix

        if rows.nnz == 0:  # cuSPARSE is not asked to multiply nothing
            rows = sp.csr_array((np.zeros(1, rows.dtype), ([0], [0])), shape=rows.shape)
        parts = (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
        matrix: DeviceCSR = csr_matrix(tuple(self.put(part) for part in parts), shape=rows.shape)
        return matrix

    def free_bytes(self) -> int:
        """Return the free memory of the driver and of the pools; the pool of RMM counts in full."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free) + int(self.xp.get_default_memory_pool().free_bytes()) + _pool_of_rmm()

    def compile(self, source: str, name: str, defines: Mapping[str, int], shared: int = 0) -> Kernel:
        options = ("-std=c++17", *(f"-D{key}={value}" for key, value in defines.items()))
        kernel = self.xp.RawModule(code=source, options=options).get_function(name)
        if not shared:
            return kernel
        kernel.max_dynamic_shared_size_bytes = shared  # more than 48 KiB has to be asked for
        return partial(kernel, shared_mem=shared)

    def try_out(self) -> None:
        """Compile something, and multiply matrices: raises what CUDA's libraries raise where they are not there."""
        array = self.put(np.ones((1, 1), dtype=np.float32))
        if self.get(self.xp.matmul(array + array, array))[0, 0] != 2.0:
            raise ArithmeticError("1 + 1 is not 2 there")

    def evidence(self) -> JsonObject:
        runtime = self.xp.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        return {
            "name": self.name,
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "memory_bytes": int(properties["totalGlobalMem"]),
            "driver": _dotted(runtime.driverGetVersion()),
            "runtime": _dotted(runtime.runtimeGetVersion()),
            "cupy": str(self.xp.__version__),
        }


def in_order(xp: Namespace, array: DeviceArray) -> DeviceArray:
    """Return the array, row after row in memory."""
    return xp.reshape(xp.reshape(array, (-1,)), array.shape)


def _dotted(version: int) -> str:
    """Return a version of CUDA as text: 13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _pool_of_rmm() -> int:
    """Return the bytes that the pool of RMM took from the driver, used or not, since it does not tell."""
    rmm = sys.modules.get("rmm")
    resource = None if rmm is None else rmm.mr.get_current_device_resource()
    while resource is not None and not hasattr(resource, "pool_size"):
        resource = resource.get_upstream() if hasattr(resource, "get_upstream") else None
    return 0 if resource is None else int(resource.pool_size())


@cache
def find_gpu() -> Gpu | str:
    """Return the CUDA device of this process, or the reason why there is none."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed; pip install 'ikmap[gpu]' (CUDA 12) or 'ikmap[gpu13]' (CUDA 13)"
    try:
        if not cupy.cuda.is_available():
            return "CuPy finds no CUDA device"
        gpu = Gpu(cupy)
        gpu.try_out()
        return gpu
    except Exception as error:  # CuPy's own, of a driver that is too old, a device that is taken, ...
        return f"the CUDA device cannot be used: {' '.join(str(error).split())}"
