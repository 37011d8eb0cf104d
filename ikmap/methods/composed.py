"""Composed maps: the cells of several maps side by side, so that a linear learner has the sum of their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self

from ikmap.capability import Offers, capability
from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import CellTables, Growable, Path, Redrawable
from ikmap.methods.fields import Doc, Field, FieldError, Symbol, fields_of, within
from ikmap.methods.map import Map, MapMemory, RowsInfo
from ikmap.methods.method import Candidates, Number, SearchSpace
from ikmap.methods.sample import Sample
from ikmap.methods.values import cells_of_values, number_at, packed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows

AND = ","
"""Separator of the names of maps."""
TOTAL = "t"
"""The field that belongs to all maps together: the number of partitionings."""


def names_of(name: str) -> tuple[str, ...]:
    """Return the names of the parts of a composed map, or the name of any other map alone."""
    return tuple(name.split(AND))


def fields_of_composed(kinds: Sequence[type[Map]]) -> dict[str, Field]:
    """Return the fields of several maps together: t, and ``MAP.FIELD`` for each other field of each of them."""
    total = fields_of(Map)[TOTAL]
    fields = {TOTAL: total.under(TOTAL, Doc("partitionings of all maps together, shared out evenly"))}
    for kind in kinds:
        for name, field in fields_of(kind).items():
            if name != TOTAL:
                fields[f"{kind.about.name}.{name}"] = _field_of_part(field, kind.about.name)
    return fields


def described(abouts: Sequence[MapAbout]) -> MapAbout:
    """Return the joint description of several maps, or the description of a single one."""
    if len(abouts) == 1:
        return abouts[0]
    return MapAbout(
        name=AND.join(about.name for about in abouts),
        title=" and ".join(about.title for about in abouts),
        summary=f"for some of them {'; for others '.join(about.summary for about in abouts)}",
        models=tuple(dict.fromkeys(["ikmap.partitioners", *(module for about in abouts for module in about.models)])),
        loops=tuple(dict.fromkeys(loop for about in abouts for loop in about.loops)),
        loop_words=frozenset().union(*({about.name, *about.loop_words} for about in abouts)),
        tables=frozenset.intersection(*(about.tables for about in abouts)),
        reaches_all=any(about.reaches_all for about in abouts),
        by_size=any(about.by_size for about in abouts),
        sees_labels=any(about.sees_labels for about in abouts),
    )


def shares(t: int, n: int) -> list[int]:
    """Return how many of t partitionings each of n maps has: as evenly as possible, the first maps have one more."""
    each, more = divmod(t, n)
    return [each + (i < more) for i in range(n)]


def _field_of_part(field: Field, part: str) -> Field:
    symbol, name = field.symbol, f"{part}.{field.name}"
    if symbol is None:
        return field.under(name)
    sign, words = f"{symbol.sign} of {part}", f"{symbol.words} of {part}"
    return field.under(name, Symbol(sign, words, symbol.meaning, f"{part}.{field.parameter}"))


def composed_of_record(kinds: Sequence[type[Map]], record: Mapping[str, object]) -> tuple[Composed, frozenset[str]]:
    """Return the map that a record describes, and the paths that are searched.

    Raises
    ------
    FieldError
        A map is named twice, there are more maps than partitionings, or a field cannot have its value.
    """
    names = [kind.about.name for kind in kinds]
    for name in names:
        if names.count(name) > 1:
            raise FieldError(
                "partitioner", f"{name} twice", "different maps", value=AND.join(names),
                instead="for more partitionings of one, give a larger {t}",
            )  # fmt: skip
    total = fields_of(Map)[TOTAL].check(record.get(TOTAL, fields_of(Map)[TOTAL].default))
    assert isinstance(total, int)
    if total < len(kinds):
        raise FieldError(TOTAL, f"{len(kinds)} maps", "at least one partitioning for each", value=total)
    parts: list[Map] = []
    searched: set[str] = set()
    for kind, t in zip(kinds, shares(total, len(kinds)), strict=True):
        name = kind.about.name
        own = {key.removeprefix(f"{name}."): value for key, value in record.items() if key.startswith(f"{name}.")}
        part, searched_here = kind.of_record({**own, TOTAL: t})
        parts.append(part)
        searched |= {f"{name}.{path}" for path in searched_here}
    return Composed(t=total, parts=tuple(parts)), frozenset(searched)


class Composed(Map, Path, Growable, Redrawable, CellTables, Offers):
    """Several maps as one: each draws from a seed of its own, and has its share of the t partitionings.

    Its fields are those of its maps, at the paths ``MAP.FIELD``. With features of value 1/sqrt(t), where t is that of
    all maps together, the inner product of two rows is the mean of the kernels of the maps, weighted by their numbers
    of partitionings.

    Attributes
    ----------
    parts : tuple of Map
    """

    about: ClassVar[MapAbout] = MapAbout(name="composed", title="several maps side by side")
    parts: tuple[Map, ...]

    def __post_init__(self) -> None:
        """Check nothing: each part has checked its values."""

    @property
    def description(self) -> MapAbout:
        return described([part.description for part in self.parts])

    def named_parts(self) -> list[tuple[str, Map]]:
        """Return the names and the maps."""
        return [(part.about.name, part) for part in self.parts]

    def searched_of_parts(self, searched: frozenset[str]) -> list[frozenset[str]]:
        """Return the searched fields of each map."""
        return [within(searched, name) for name, _ in self.named_parts()]

    # The fields, by paths

    def at(self, values: Mapping[str, object]) -> Self:
        total = values.get(TOTAL, self.t)
        assert isinstance(total, int)
        parts = []
        for (name, part), t in zip(self.named_parts(), shares(total, len(self.parts)), strict=True):
            inner = {key.removeprefix(f"{name}."): value for key, value in values.items() if key.startswith(f"{name}.")}
            if TOTAL in values:
                inner[TOTAL] = t
            parts.append(part.at(inner) if inner else part)
        return replace(self, t=total, parts=tuple(parts))

    def field_at(self, path: str) -> Field:
        name, _, rest = path.partition(".")
        return _field_of_part(self._part(name).field_at(rest), name) if rest else fields_of(Map)[path]

    def value_at(self, path: str) -> object:
        name, _, rest = path.partition(".")
        return self._part(name).value_at(rest) if rest else getattr(self, path)

    def _part(self, name: str) -> Map:
        return next(part for part in self.parts if part.about.name == name)

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        return tuple(
            f"{name}.{path}" for name, part in self.named_parts() for path in part.tunable(within(searched, name))
        )

    def record(self, searched: frozenset[str] = frozenset()) -> dict[str, object]:
        record: dict[str, object] = {TOTAL: self.t}
        for name, part in self.named_parts():
            own = part.record(within(searched, name))
            record |= {f"{name}.{key}": value for key, value in own.items() if key != TOTAL}
        return record

    def ignored(self, searched: frozenset[str]) -> frozenset[str]:
        return frozenset(
            f"{name}.{path}" for name, part in self.named_parts() for path in part.ignored(within(searched, name))
        )

    # The search

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        joint: dict[str, Candidates] = {}
        for name, part in self.named_parts():
            space = part.search_space(within(searched, name), n_rows, sample)
            joint |= {f"{name}.{path}": candidates for path, candidates in space.items()}
        return joint

    def within(self, n_rows: int) -> Self:
        return replace(self, parts=tuple(part.within(n_rows) for part in self.parts))

    def unsearched(self, searched: frozenset[str], n_rows: int, psi: int) -> Self | None:
        parts: list[Map] = []
        for name, part in self.named_parts():
            own = within(searched, name)
            known = part.unsearched(own, n_rows, psi) if own else part
            if known is None:
                return None
            parts.append(known)
        return replace(self, parts=tuple(parts))

    # The cells

    @property
    def n_partitions(self) -> int:
        return sum(part.n_partitions for part in self.parts)

    def n_cells(self) -> int:
        return max(part.n_cells() for part in self.parts)

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        from ikmap.partitioners import SideBySide

        return SideBySide(tuple(part.fit(_sample_of(sample, i), n_threads) for i, part in enumerate(self.parts)))

    def memory(self, rows: RowsInfo) -> MapMemory:
        memories = [part.memory(rows) for part in self.parts]
        return MapMemory(sum(memory.model for memory in memories), max(memory.scratch for memory in memories))

    def plan_words(self, rows: RowsInfo) -> str:
        return "; ".join(f"{name}: t = {part.t}, {part.plan_words(rows)}" for name, part in self.named_parts())

    # The capabilities

    def offered[C](self, kind: type[C]) -> C | None:
        of_parts = [capability(part, kind) is not None for part in self.parts]
        if kind in (Growable, Path):
            able = any(of_parts)
        elif kind is Redrawable:
            able = all(of_parts)
        else:
            able = kind is CellTables and bool(self.description.tables)
        return self if able and isinstance(self, kind) else None

    @property
    def along(self) -> frozenset[str]:
        """All fields of all maps: each map finds its cells once for each of its values."""
        return frozenset(self.tunable(frozenset())) | frozenset(
            f"{name}.{path}"
            for name, part in self.named_parts()
            if (able := capability(part, Path))
            for path in able.along
        )

    @property
    def small_first(self) -> bool:
        return any(able.small_first for part in self.parts if (able := capability(part, Path)))

    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Find the cells of each map once for each of its values, in however many combinations the values occur."""
        from ikmap.partitioners.side_by_side import side_by_side

        choices = [self.at(fields) for fields in values]
        chosen = frozenset(values[0])
        cells_of_parts: list[list[list[Cells]]] = []
        for i, (name, part) in enumerate(self.named_parts()):
            names = part.tunable(within(chosen, name))
            numbers = [packed([number_at(choice.parts[i], path) for path in names]) for choice in choices]
            by_value = dict(
                cells_of_values(
                    part, frozenset(names), sorted(set(numbers)), _sample_of(sample, i), map_rows, n_threads
                )
            )
            cells_of_parts.append([by_value[number] for number in numbers])
        for parts in zip(*cells_of_parts, strict=True):
            yield [side_by_side(cells) for cells in zip(*parts, strict=True)]

    def extend(self, model: Partitions, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        from ikmap.partitioners.side_by_side import SideBySide, side_by_side

        assert isinstance(model, SideBySide)
        larger: list[Partitions] = []
        cells: list[Cells] = []
        for part, fitted in zip(self.parts, model.parts, strict=True):
            growing = capability(part, Growable)
            new = growing.extend(fitted, rows, n_threads) if growing else (fitted, fitted.cells(rows, n_threads))
            larger.append(new[0])
            cells.append(new[1])
        return SideBySide(tuple(larger)), side_by_side(cells)

    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        """Redraw half of the partitionings of each map; of maps with a single partitioning, redraw every second map."""
        import numpy as np

        from ikmap.partitioners import SideBySide

        assert isinstance(model, SideBySide)
        parts: list[Partitions] = []
        drawn: list[NDArray[np.bool_]] = []
        for i, (part, fitted) in enumerate(zip(self.parts, model.parts, strict=True)):
            redrawable = capability(part, Redrawable)
            assert redrawable is not None
            if fitted.n_partitions == 1 and (number + i) % 2 == 0:
                new = fitted, np.zeros(1, dtype=np.bool_)
            else:
                new = redrawable.redrawn(fitted, _sample_of(sample, i), number, n_threads)
            parts.append(new[0])
            drawn.append(new[1])
        return SideBySide(tuple(parts)), np.concatenate(drawn)

    def cell_tables(self, model: Partitions, sample: Sample) -> Mapping[str, NDArray[np.float64]]:
        import numpy as np

        from ikmap.partitioners import SideBySide

        assert isinstance(model, SideBySide)
        tables: list[Mapping[str, NDArray[np.float64]]] = []
        for i, (part, fitted) in enumerate(zip(self.parts, model.parts, strict=True)):
            tabled = capability(part, CellTables)
            assert tabled is not None
            tables.append(tabled.cell_tables(fitted, _sample_of(sample, i)))
        return {name: np.concatenate([of_part[name] for of_part in tables]) for name in sorted(self.description.tables)}


def _sample_of(sample: Sample, i: int) -> Sample:
    """Return the sample of the i-th map: the same rows, with a seed of its own."""
    from ikmap.partitioners.side_by_side import seed_of_part

    return replace(sample, seed=seed_of_part(sample.seed, i))
