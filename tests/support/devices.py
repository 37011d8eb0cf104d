"""Stand-ins for a GPU: arrays that must not be mixed with the host's, and kernels that run on the processor."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.device import Device, Host, Kernel

HEADER = Path(__file__).with_name("cuda_on_cpu.h")


class Strict(Device):
    """array-api-strict's second device: nothing but the standard's functions, and no array of the host's."""

    name = "strict"
    xp: Any

    def __init__(self, free: int = 1 << 30) -> None:
        self.xp = pytest.importorskip("array_api_strict", reason="needs array-api-strict")
        self._here, self._host = self.xp.Device("device1"), self.xp.Device("CPU_DEVICE")
        self._free = free

    def put(self, array: np.ndarray) -> Any:
        assert isinstance(array, np.ndarray)
        return self.xp.asarray(array, device=self._here)

    def get(self, array: Any) -> np.ndarray:
        assert array.device == self._here
        return np.asarray(array.to_device(self._host))

    def put_csr(self, rows: sp.csr_array) -> Any:
        return StrictMatrix(self, rows)

    def free_bytes(self) -> int:
        return self._free


class StrictMatrix:
    """What a device's sparse matrix has to offer."""

    def __init__(self, device: Strict, rows: sp.csr_array) -> None:
        self._device, self._dense = device, device.put(rows.toarray())

    def __matmul__(self, right: Any) -> Any:
        return self._device.xp.matmul(self._dense, right)


class Crowded(Host):
    """A device whose memory has room for arrays of few bytes only."""

    def __init__(self, room: int) -> None:
        self.room, self.refused = room, 0

    def put(self, array: np.ndarray) -> Any:
        if array.nbytes > self.room:
            self.refused += 1
            raise MemoryError
        return array


class KernelsOnCpu(Host):
    """NumPy's arrays, and kernels compiled for the processor.

    Parameters
    ----------
    folder : Path
        Where libraries are kept, each by what it was compiled from: those that are there already are loaded.
    shared_bytes : int
        Shared memory of a block.

    Attributes
    ----------
    launched : list of tuple
        Names of the kernels that were launched, and their arguments.
    """

    name = "kernels on the processor"

    def __init__(self, folder: Path, shared_bytes: int = 48 << 10) -> None:
        self.folder, self.shared_bytes = folder, shared_bytes
        self.launched: list[tuple[str, tuple[Any, ...]]] = []

    def compile(self, source: str, name: str, defines: Mapping[str, int], shared: int = 0) -> Kernel:
        assert shared <= self.shared_bytes
        compiler = shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            pytest.skip("needs a C++ compiler to run CUDA C on the processor")
        entry = (
            'extern "C" int launch(unsigned x, unsigned y, unsigned threads, void** arguments) '
            f"{{ return on_cpu::launch({name}, x, y, threads, arguments); }}\n"
        )
        text = f'#include "{HEADER}"\n{source}\n{entry}'
        options = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
        options += ["-U_FORTIFY_SOURCE"]  # which takes a jump to another stack for an error
        options += [f"-D{key}={value}" for key, value in defines.items()]
        parts = [text, HEADER.read_text(), *options, compiler, str(os.stat(compiler).st_mtime_ns)]
        library = self.folder / f"{name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.so"
        if not library.exists():
            # Another process may compile the same: each writes files of its own, and the last one takes its place.
            with tempfile.TemporaryDirectory(dir=self.folder) as own:
                code, made = Path(own, "kernel.cpp"), Path(own, "kernel.so")
                code.write_text(text)
                subprocess.run([compiler, *options, str(code), "-o", str(made)], check=True)
                made.replace(library)
        launch = ctypes.CDLL(str(library)).launch

        def kernel(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            self.launched.append((name, arguments))
            held: list[Any] = []
            for argument in arguments:
                if isinstance(argument, np.ndarray):
                    assert argument.flags.c_contiguous
                    held.append(ctypes.c_void_p(argument.ctypes.data))
                else:
                    held.append({np.int32: ctypes.c_int32, np.float64: ctypes.c_double}[type(argument)](argument))
            addresses = (ctypes.c_void_p * len(held))(*[ctypes.addressof(value) for value in held])
            assert launch(*grid, *block, addresses) == 0, "threads of a block went different ways at a barrier"

        return kernel
