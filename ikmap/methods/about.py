"""Descriptions of the classes of methods, for people and for code that picks a method by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from ikmap.frozen import Frozen

if TYPE_CHECKING:
    from ikmap.json_values import Json


class About(Frozen, kw_only=True):
    """Description of any method.

    Attributes
    ----------
    name : str
        By which command lines, files and stores call it.
    title : str
        For people, in a few words.
    models : tuple of str
        Modules of the kinds of models that it makes: a process that reads one has to import them.
    loops : tuple of str
        Modules of compiled loops of its own, outside `ikmap`; those within it are found by their names.
    loop_words : frozenset of str
        Further words by which compiled loops say who needs them (:mod:`ikmap._compiled`).
    """

    name: str
    title: str
    models: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    loop_words: frozenset[str] = frozenset()


class MapAbout(About, kw_only=True):
    """Description of a map to cells.

    Attributes
    ----------
    summary : str
        How space is cut, as half a sentence for reports: "the nearest of ψ points". ψ stands for the chosen value.
    tables : frozenset of str
        What it knows of its cells beside their numbers: the names that :class:`~ikmap.methods.CellTables` gives.
    reaches_all : bool
        Every row has a cell in some partitioning. Where rows may have none at all, linear classifiers on the cells
        learn an intercept, which is all that they can say of such a row.
    by_size : bool
        Its cells depend on how large the values of a column are beside those of others, as distances do.
    """

    summary: str = ""
    models: tuple[str, ...] = ("ikmap.partitioners",)
    tables: frozenset[str] = frozenset()
    reaches_all: bool = True
    by_size: bool = False


class LearnerAbout(About, kw_only=True):
    """Description of a learner.

    Attributes
    ----------
    on : {"cells", "rows"}
        It works on the cells of the run's map, or on the rows themselves.
    tasks : frozenset of str
        Names of the tasks that it serves.
    equivalent_to : str or None
        A learner with the very same decisions, which is cross-validated in its place.
    usual_map : str
        The map that one on cells gets where none is named.
    needs_tables : tuple of str
        What it needs to know of cells beside their numbers (:attr:`MapAbout.tables`).
    metrics_schema : mapping of str to mapping
        What it reports under its name in ``metrics.json``, beside what all learners of its kind do: the JSON Schema of
        each value.
    """

    models: tuple[str, ...] = ("ikmap.learners.linear_model",)
    on: Literal["cells", "rows"] = "cells"
    tasks: frozenset[str] = frozenset({"classification"})
    equivalent_to: str | None = None
    usual_map: str = "iforest"
    needs_tables: tuple[str, ...] = ()
    metrics_schema: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


class KernelAbout(About, kw_only=True):
    """Description of a kernel.

    Attributes
    ----------
    source : str
        Paper and section; empty for what every textbook has.
    on : {"cells", "rows"}
        It compares the cells of a map, or the rows themselves: learners with a kernel take the latter.
    """

    models: tuple[str, ...] = ("ikmap.kernels",)
    source: str = ""
    on: Literal["cells", "rows"] = "rows"
