"""Cells that are spheres around drawn points: a row belongs to the nearest point, unless it is too far from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.anne import ANNE
from ikmap.methods.map import MapShape, PsiMap, PsiOptions, Value
from ikmap.methods.options import MethodOptions

if TYPE_CHECKING:
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows


class _INNE(PsiMap):
    Options: ClassVar[type[MethodOptions]] = PsiOptions
    by_size = True
    reaches_all = False  # a row may lie outside all spheres

    def compiled(self, options: Any) -> frozenset[str]:
        return super().compiled(options) | ANNE.compiled(options)

    def partitions(self, options: Any, points: Rows, draws: Any, seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_spheres

        return fit_spheres(points, draws)

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        model, search = ANNE.needed_bytes(options, value, shape)
        return model + 8.0 * options.t * value, search


INNE = _INNE(
    name="inne",
    title="spheres around psi points",
    about="some training rows (ψ of them, see below) are drawn at random, and a row belongs to the nearest of them if "
    "it is no farther away than the next of these points",
)
