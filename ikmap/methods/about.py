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
        Name on command lines, in files and in stores.
    title : str
        Title for people, in a few words.
    models : tuple of str
        Modules of the kinds of models that the method makes: a process that reads such a model has to import them.
    loops : tuple of str
        Modules of compiled loops outside `ikmap`; loops within it are found by the names of their modules.
    loop_words : frozenset of str
        Further words of compiled loops that the method needs (:mod:`ikmap.compiled`).
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
        Description of the cells, as half a sentence for reports: "the nearest of ψ points". ψ is the chosen value.
    tables : frozenset of str
        Names of the tables on its cells that :class:`~ikmap.methods.CellTables` gives.
    reaches_all : bool
        True if every row has a cell in some partitioning. Otherwise linear classifiers on the cells learn an
        intercept, which is their decision on a row without any cell.
    by_size : bool
        True if cells depend on the scale of one column relative to the others, as distances do.
    sees_labels : bool
        True if cells depend on the labels of the rows that the map is fitted on. Labels are hidden from other maps.
    """

    summary: str = ""
    models: tuple[str, ...] = ("ikmap.partitioners",)
    tables: frozenset[str] = frozenset()
    reaches_all: bool = True
    by_size: bool = False
    sees_labels: bool = False


class LearnerAbout(About, kw_only=True):
    """Description of a learner.

    Attributes
    ----------
    on : {"cells", "rows"}
        Input of the learner: cells of the map of the run, or the rows themselves.
    tasks : frozenset of str
        Names of the tasks that the learner serves.
    equivalent_to : str or None
        Name of a learner with the same decisions, which is cross-validated in its place.
    usual_map : str
        Name of the map for a learner on cells if the user names none.
    needs_tables : tuple of str
        Names of the tables on cells that the learner needs (:attr:`MapAbout.tables`).
    metrics_schema : mapping of str to mapping
        JSON Schema of each field under its name in ``metrics.json``, beside the fields of all learners of its kind.
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
        Paper and section, or "" for a kernel that every textbook has.
    on : {"cells", "rows"}
        Operands of the kernel: cells of a map, or the rows themselves. A learner with a kernel field takes the latter.
    """

    models: tuple[str, ...] = ("ikmap.kernels",)
    source: str = ""
    on: Literal["cells", "rows"] = "rows"
