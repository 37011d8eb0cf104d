"""Cells of generalized consistent weighted sampling: rows share a cell as often as their min-max kernel says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Choice, Integer, Real
from ikmap.methods.map import Map, MapOptions, MapShape, Value
from ikmap.methods.options import FEATURES, MethodOptions, OptionError, Setting, option
from ikmap.methods.sample import Sample
from ikmap.methods.search import JOINED, Search

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows

PS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
"""Every second or third of the paper's 27 values."""
BITS = (2, 4, 8, 12)
"""Those of the paper's figures."""
MOST_BITS = 16
WORDS_OF_CODES = ("0-bit", "full")
MOST_P = 1e6
"""As in :mod:`ikmap.partitioners.gcws`, which is not imported for ``--help``."""


class GCWSOptions(MapOptions):
    """Of weighted minwise hashes."""

    p: float | str = option(
        0.25,
        Real(0, words=("auto",), instead="give --p 0.25, or --p 1 for the kernel without an exponent"),
        group=FEATURES,
        help="exponent of the values under the min-max kernel (default: 0.25); auto: by cross-validation",
        setting=Setting(
            "p",
            "exponent of the values",
            "With a small p only matters which values are zero; with a large one, only the largest values count.",
        ),
    )
    b: int | str = option(
        8,
        Integer(1, MOST_BITS, words=("auto",), instead="give --b 8"),
        group=FEATURES,
        help="bits of a code: 2^b cells per partitioning (default: 8); auto: by cross-validation",
        setting=Setting(
            "b",
            "bits of a code",
            "With few bits different values share a cell; with many there is more to learn.",
        ),
    )
    bits: int | None = option(
        None,
        Integer(MOST_BITS, instead="give --bits 4096"),
        group=FEATURES,
        help="bits of all codes of a row: there are bits / b codes then, whatever t is; with --b auto it is found out "
        "whether many codes of few bits are better or few of many",
    )
    code: str = option(
        "full",
        Choice(WORDS_OF_CODES),
        group=FEATURES,
        help="what a code tells of the value that wins: its column (0-bit), or its size too (full): the exact kernel",
    )
    gamma: int = option(
        1,
        Integer(1, 64, instead="give --gamma 2; only kernels such as --kernel gamma-gmm have fractions"),
        group=FEATURES,
        help="whole exponent of the kernel: a code is made of so many hashes, which takes as many times longer "
        "(default: 1)",
    )

    def check_together(self) -> None:
        if self.p != "auto" and float(self.p) > MOST_P:
            raise OptionError(
                f"--p {self.p:g}: found a p whose codes would leave int64, expected at most {MOST_P:g}; give --p 80 "
                "to have only the largest values count"
            )


class _GCWS(Map):
    Options: ClassVar[type[MethodOptions]] = GCWSOptions
    by_size = True
    reaches_all = False  # a row of zeros has no hash

    def parameter(self, options: Any) -> str:
        return JOINED.join(("p", "b"))

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        if "auto" not in (options.p, options.b):
            return None
        ps = PS if options.p == "auto" else (options.p,)
        bits = BITS if options.b == "auto" else (options.b,)
        ends = {"p": (None, MOST_P), "b": (1, MOST_BITS)}
        return Search(JOINED.join(("p", "b")), self.parameter(options), tuple(product(ps, bits)), ends)

    def given(self, options: Any) -> Value | None:
        return None if "auto" in (options.p, options.b) else (float(options.p), int(options.b))

    def partitionings(self, options: Any, value: Value) -> int:
        return int(options.t) if options.bits is None else int(options.bits) // int(value[1])

    def n_cells(self, options: Any, value: Value) -> int:
        return 1 << int(value[1])

    def sharing(self, options: Any, value: Value) -> Any:
        return value[0]

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        return self._hashes(options, value, sample, self.partitionings(options, value))

    def _hashes(self, options: Any, value: Value, sample: Sample, t: int) -> Partitions:
        from ikmap.partitioners.gcws import GCWSPartitions

        return GCWSPartitions(
            seed=sample.seed,
            t=t,
            p=float(value[0]),
            b=int(value[1]),
            gamma=options.gamma,
            full=options.code == "full",
            n_features=sample.n_columns,
        )

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        """Codes of fewer bits are the upper bits of those of more, and fewer codes the first: each p is hashed once."""
        import numpy as np

        from ikmap.cells import Cells

        n, d = fit_rows.shape
        sample = Sample(n, d, None, fit_rows.__getitem__, seed)
        for p, of in groupby(sorted(values), key=lambda value: value[0]):
            bits = [b for _, b in of]
            most = max(self.partitionings(options, (p, b)) for b in bits)
            model = self._hashes(options, (p, bits[-1]), sample, most)
            found = [model.cells(rows, n_threads).codes for rows in map_rows]
            for b in bits:
                t = self.partitionings(options, (p, b))
                offsets = np.arange(t + 1, dtype=np.int64) << b
                # Of -1, every bit is set: it stays what it is.
                few = [np.ascontiguousarray(codes[:, :t] >> np.int32(bits[-1] - b)) for codes in found]
                yield (p, b), [Cells(codes, offsets) for codes in few]

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        # Non-zeros of a block: slots, values, logarithms, and where rows begin; tables of the coordinates that occur.
        at_once = min(shape.n * shape.d, 1 << 20)
        return 0.0, at_once * 28.0 + min(2 * shape.d, at_once) * 700.0

    def planned(self, options: Any, value: Value, shape: MapShape) -> str:
        return f"p = {value[0]:g}, b = {value[1]}, {options.code} codes of {options.gamma} hashes each"


GCWS = _GCWS(
    name="gcws",
    title="weighted hashes",
    about="a random weighing is drawn for each column, and a row belongs to the cell of the value that weighs least",
)
