"""Several maps as one: their cells side by side, so that a linear learner on them has the sum of their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.map import Map, MapOptions, MapShape, Value
from ikmap.methods.options import OptionError, Spec
from ikmap.methods.sample import Sample
from ikmap.methods.search import JOINED, Search

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows

AND = ","
"""Between the names of maps."""
OF = "."
"""Between the name of a map and that of one of its options, as on a command line."""
TOTAL = "t"
"""The option that is that of all maps together: the number of partitionings."""


@lru_cache(maxsize=64)
def composed(parts: tuple[Map, ...]) -> Composed:
    """The map that has the cells of all of these.

    Raises
    ------
    OptionError
        One of them is there twice.
    """
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(
                f"--partitioner {AND.join(names)}: found {name} twice, expected different maps; for more partitionings "
                "of one, give a larger --t"
            )
    return Composed(
        name=AND.join(names),
        title=" and ".join(part.title for part in parts),
        about=f"for some of them {'; for others '.join(part.about for part in parts)}",
        nested=any(part.nested for part in parts),
        parts=parts,
    )


class ComposedOptions(MapOptions):
    """Of several maps: how many partitionings they have in all, and ``MAP.OPTION`` for each option of each of them."""

    n_parts: ClassVar[int]

    def check_together(self) -> None:
        if self.t < self.n_parts:
            raise OptionError(f"--t {self.t}: found {self.n_parts} maps, expected at least one partitioning for each")


@dataclass(frozen=True, kw_only=True)
class Composed(Map):
    """Several maps as one: the i-th draws from a seed of its own, and has its share of the t partitionings.

    Its value is a tuple, the numbers of each map after those of the one before it: most have one. With every feature
    1/sqrt(t), where t is that of all maps together, the inner product of two rows is the mean of the maps' kernels,
    weighted by their numbers of partitionings.

    Attributes
    ----------
    parts : tuple of Map
    """

    parts: tuple[Map, ...]

    def __post_init__(self) -> None:
        own = MapOptions.specs()[TOTAL]
        specs = {TOTAL: replace(own, help="partitionings of all maps together, shared out evenly")}
        for part in self.parts:
            specs |= {spec.name: spec for spec in _specs_of(part)}
        options = type("OptionsOfComposed", (ComposedOptions,), {"n_parts": len(self.parts)})
        options._specs = specs  # type: ignore[attr-defined]
        of_all = {
            "Options": options,
            "models": tuple(dict.fromkeys(["ikmap.partitioners", *(m for part in self.parts for m in part.models)])),
            "loops": tuple(dict.fromkeys(loop for part in self.parts for loop in part.loops)),
            "tables": frozenset.intersection(*(part.tables for part in self.parts)),
            "reaches_all": any(part.reaches_all for part in self.parts),
            "by_size": any(part.by_size for part in self.parts),
        }
        for name, value in of_all.items():
            object.__setattr__(self, name, value)

    def options_of(self, options: Any) -> list[Any]:
        """The options of each map, with its share of the partitionings."""
        from ikmap.partitioners.side_by_side import shares

        given = vars(options)
        return [
            part.Options(
                **{key: given[part.name + OF + key] for key in part.Options.specs() if key != TOTAL},
                **({TOTAL: t} if TOTAL in part.Options.specs() else {}),
            )
            for part, t in zip(self.parts, shares(options.t, len(self.parts)), strict=True)
        ]

    def folded(self, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Options of this map, from those that are given for each of its maps."""
        found: dict[str, Any] = {}
        for part in self.parts:
            for key, value in given[part.name].items():
                found[key if key == TOTAL else part.name + OF + key] = value
        return found

    def _each(self, options: Any) -> list[tuple[Map, Any]]:
        return list(zip(self.parts, self.options_of(options), strict=True))

    def _valued(self, options: Any, value: Any) -> list[tuple[Map, Any, Value]]:
        return [
            (part, own, of) for (part, own), of in zip(self._each(options), self._split(options, value), strict=True)
        ]

    def _split(self, options: Any, value: Any) -> list[Value]:
        """The value of each map: a tuple where it has several numbers."""
        numbers, found = iter(value), []
        for part, own in self._each(options):
            taken = tuple(next(numbers) for _ in part.parameter(own).split(JOINED))
            found.append(taken if len(taken) > 1 else taken[0])
        return found

    def compiled(self, options: Any) -> frozenset[str]:
        return frozenset().union(*(part.compiled(own) for part, own in self._each(options)))

    def parameter(self, options: Any) -> str:
        return JOINED.join(_names_of(part, part.parameter(own)) for part, own in self._each(options))

    def partitionings(self, options: Any, value: Any) -> int:
        return sum(part.partitionings(own, of) for part, own, of in self._valued(options, value))

    # --- the value: one after the other

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        """First, all maps at once: the smallest value of each, and so on, to the largest of each."""
        searches = [part.search(own, n_rows, sample) for part, own in self._each(options)]
        if not any(searches):
            return None
        tried = [
            search.values if search else (part.comparable(own, part.given(own), n_rows),)
            for search, (part, own) in zip(searches, self._each(options), strict=True)
        ]
        last = max(map(len, tried)) - 1
        values = [joined([of[round(k * (len(of) - 1) / max(1, last))] for of in tried]) for k in range(last + 1)]
        return self._search(options, n_rows, values)

    def refined(
        self, options: Any, chosen: Sequence[Value], n_rows: int, number: int, sample: Sample | None = None
    ) -> Search | None:
        """Then one map after the other: its values, with those of the others as they were chosen last."""
        searched = [
            (i, search.values)
            for i, (part, own) in enumerate(self._each(options))
            if (search := part.search(own, n_rows, sample)) is not None
        ]
        if len(searched) < 2 or number >= len(searched):
            return None
        i, tried = searched[number]
        ways = set()
        for one in chosen:
            of = self._split(options, one)
            ways |= {joined([*of[:i], value, *of[i + 1 :]]) for value in (*tried, of[i])}
        return self._search(options, n_rows, sorted(ways))

    def _search(self, options: Any, n_rows: int, values: Sequence[Any]) -> Search:
        own = [(part, part.parameter(of), part.search(of, n_rows)) for part, of in self._each(options)]
        names = [_names_of(part, search.option if search else parameter) for part, parameter, search in own]
        ends = {
            _names_of(part, name): of
            for part, _, search in own
            if search is not None
            for name, of in search.ends.items()
        }
        return Search(JOINED.join(names), self.parameter(options), tuple(values), ends)

    def given(self, options: Any) -> Value | None:
        found = [part.given(own) for part, own in self._each(options)]
        return None if any(value is None for value in found) else joined(found)

    def unsearched(self, options: Any, psi: int, n_rows: int) -> Value:
        return joined([part.unsearched(own, psi, n_rows) for part, own in self._each(options)])

    def comparable(self, options: Any, value: Value, n_rows: int) -> Value:
        return joined([part.comparable(own, of, n_rows) for part, own, of in self._valued(options, value)])

    def refused(self, options: Any, value: Value, n_rows: int) -> str | None:
        return next(
            filter(None, (part.refused(own, of, n_rows) for part, own, of in self._valued(options, value))), None
        )

    def n_cells(self, options: Any, value: Value) -> int:
        return max(part.n_cells(own, of) for part, own, of in self._valued(options, value))

    # --- the cells

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        from ikmap.partitioners import SideBySide

        return SideBySide(
            tuple(
                part.fit(own, of, _sample_of(sample, i), n_threads)
                for i, (part, own, of) in enumerate(self._valued(options, value))
            )
        )

    def cell_tables(self, options: Any, model: Any, sample: Sample) -> Mapping[str, np.ndarray]:
        import numpy as np

        found = [
            part.cell_tables(own, fitted, _sample_of(sample, i))
            for i, ((part, own), fitted) in enumerate(zip(self._each(options), model.parts, strict=True))
        ]
        return {name: np.concatenate([of[name] for of in found]) for name in sorted(self.tables)}

    def grows(self, options: Any) -> bool:
        return any(part.grows(own) for part, own in self._each(options))

    def extend(self, options: Any, model: Any, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        from ikmap.partitioners.side_by_side import SideBySide, side_by_side

        found = [
            part.extend(own, fitted, rows, n_threads) if part.grows(own) else (fitted, fitted.cells(rows, n_threads))
            for (part, own), fitted in zip(self._each(options), model.parts, strict=True)
        ]
        return SideBySide(tuple(larger for larger, _ in found)), side_by_side([cells for _, cells in found])

    def redraws(self, options: Any) -> bool:
        return all(part.redraws(own) for part, own in self._each(options))

    def redrawn(
        self, options: Any, value: Value, model: Any, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, np.ndarray]:
        """Half of each map; of maps of one partitioning every second map."""
        import numpy as np

        from ikmap.partitioners import SideBySide

        found: list[tuple[Any, Any]] = []
        for i, ((part, own, of), fitted) in enumerate(zip(self._valued(options, value), model.parts, strict=True)):
            if fitted.n_partitions == 1 and (number + i) % 2 == 0:
                found.append((fitted, np.zeros(1, dtype=bool)))
            else:
                found.append(part.redrawn(own, of, fitted, _sample_of(sample, i), number, n_threads))
        return SideBySide(tuple(of for of, _ in found)), np.concatenate([drawn for _, drawn in found])

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        from ikmap.partitioners.side_by_side import seed_of_part, side_by_side

        several: list[Any] = sorted(values)
        splits = [self._split(options, value) for value in several]
        # Each map makes its cells once for each of its values, however many ways they are put together.
        of_parts = [
            dict(part.path(own, sorted({of[i] for of in splits}), seed_of_part(seed, i), fit_rows, map_rows, n_threads))
            for i, (part, own) in enumerate(self._each(options))
        ]
        for value, split in zip(several, splits, strict=True):
            found = [cells[of] for cells, of in zip(of_parts, split, strict=True)]
            yield value, [side_by_side(sides) for sides in zip(*found, strict=True)]

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        found = [part.needed_bytes(own, of, shape) for part, own, of in self._valued(options, value)]
        return sum(model for model, _ in found), max(search for _, search in found)

    def planned(self, options: Any, value: Value, shape: MapShape) -> str:
        return "; ".join(
            f"{part.name}: t = {own.t}, {part.planned(own, of, shape)}"
            for part, own, of in self._valued(options, value)
        )


def joined(values: Sequence[Value]) -> tuple[Any, ...]:
    """The numbers of several maps' values, one after the other."""
    return tuple(number for value in values for number in (value if isinstance(value, tuple) else (value,)))


def _names_of(part: Map, names: str) -> str:
    """The names of a map's numbers, each after that of the map."""
    return JOINED.join(part.name + OF + name for name in names.split(JOINED))


def _specs_of(part: Map) -> Iterator[Spec]:
    """The options of a map, named after it, but for the number of partitionings."""
    for spec in part.Options.specs().values():
        if spec.name == TOTAL:
            continue
        told = spec.setting
        if told is not None:
            told = replace(
                told,
                sign=f"{told.sign} of {part.name}",
                words=f"{told.words} of {part.name}",
                parameter=_name(part, spec),
            )
        yield replace(spec, name=part.name + OF + spec.name, setting=told)


def _name(part: Map, spec: Spec) -> str:
    """How papers call an option, with the name of the map."""
    return part.name + OF + (spec.setting.parameter if spec.setting and spec.setting.parameter else spec.name)


def _sample_of(sample: Sample, i: int) -> Sample:
    """What the i-th map looks at: the same rows, with a seed of its own."""
    from ikmap.partitioners.side_by_side import seed_of_part

    return replace(sample, seed=seed_of_part(sample.seed, i))


def names_of(name: str) -> tuple[str, ...]:
    """The maps that one of that name is put together from; any other name alone."""
    return tuple(name.split(AND))
