"""Arrays in temporary files that are mapped into memory, for what does not fit into it as a whole."""

from __future__ import annotations

import math
import mmap
import os
import tempfile

import numpy as np

from ikmap.arrays import Array
from pipeline.errors import writing


class MappedArrays:
    """Arrays in temporary files, which take no memory of the process while it rests."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def zeros(self, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
        """Return a new array of zeros. Its file, which has no name, goes when the array does."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        with writing(tempfile.gettempdir()), tempfile.TemporaryFile(prefix="ikmap-rows-") as file:
            if hasattr(os, "posix_fallocate"):  # else a full disk would show only when the array is written to
                os.posix_fallocate(file.fileno(), 0, max(1, size))
            else:
                file.truncate(max(1, size))
            mapped = mmap.mmap(file.fileno(), max(1, size))
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype=dtype, count=math.prod(shape)).reshape(shape)

    def rest(self) -> None:
        """Let go of the memory of all arrays until they are used again."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
