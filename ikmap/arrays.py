"""Names of array types, for annotations: importing them imports no NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import ArrayLike, NDArray

type Array = NDArray[Any]
"""An array of numbers, texts or objects; the element type is known only when the program runs."""
type Floats = NDArray[np.float64]
type Singles = NDArray[np.float32]
type Integers = NDArray[np.integer]
"""Whole numbers of any width."""
type Bytes = NDArray[np.uint8]
type Words = NDArray[np.uint64]
type Int32s = NDArray[np.int32]
type Int64s = NDArray[np.int64]
type Bools = NDArray[np.bool_]
type Objects = NDArray[np.object_]
type Numbers = NDArray[np.floating | np.integer]
"""Numbers of any type."""
type Matrix = ArrayLike | sp.sparray | sp.spmatrix
"""Rows in any form that NumPy or SciPy reads."""
