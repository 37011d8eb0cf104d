"""The paper as data: its printed numbers, its systems, and commands that make each of them."""

from __future__ import annotations

from typing import Any

import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from ikmap.methods import fields_of
from pipeline.errors import InputError
from pipeline.reproduce.compared import Compared, form_of
from pipeline.reproduce.paper import READINGS, Entry, Experiment, Paper, Request, shown
from pipeline.reproduce.registry import PAPERS
from pipeline.sources.datasets.known import load_registry

pytestmark = pytest.mark.slow

PAPER = PAPERS["isolation-kernel"]
TABLES = ("5", "6", "7", "8")


def printed(number: str, dataset: str, system: str) -> tuple[Any, Any]:
    form = form_of(PAPER, PAPER.find("table", number))
    assert isinstance(form, Compared)
    return form.printed(dataset, system)


def entries_of(
    paper: Paper, experiment: Experiment, datasets: Any, chosen: Any, stream: Any, systems: Any = None
) -> list[Entry]:
    return list(form_of(paper, experiment).entries(Request(datasets, chosen, stream, systems)))


def test_printed_numbers_are_those_of_the_paper() -> None:
    assert printed("5", "a9a", "ogd") == (0.84, 95)
    assert printed("5", "a9a", "ik_a_ogd") == (0.84, "see Table 6")
    assert printed("6", "a9a", "ik_a_ogd") == (0.84, "5,589 s; GPU: 3 s")
    assert printed("7", "mnist", "ik_a_svm") == (0.99, 1.0)
    assert printed("8", "url", "chi2_linear_svm") == ("-GE-", None)
    assert printed("8", "rcv1.binary", "chi2_kernel_svm") == (0.96, 321 + 2972)
    assert printed("8", "rcv1.binary", "ik_a_svm") == (0.96, 0.5)
    assert printed("5", "epsilon", "adaraker") == ("—", "> 1 week")
    assert printed("7", "clouds", "ik_a_svm") == (None, None)


def test_every_table_has_every_data_set_and_system() -> None:
    for number in TABLES:
        table = PAPER.published[f"table{number}"]
        assert tuple(table) == PAPER.datasets
        systems = PAPER.find("table", number).systems
        for cell in table.values():
            assert set(systems) <= set(cell) or number == "6"
    registry = load_registry()
    assert [registry.find(name).name for name in PAPER.datasets] == list(PAPER.datasets)


def test_sizes_are_those_of_the_registry() -> None:
    registry = load_registry()
    for name, size in PAPER.published["table4"].items():
        spec = registry.find(name)
        assert (spec.n_columns, spec.n_train, spec.n_test) == (size["n_columns"], size["n_train"], size["n_test"])


def test_readings_are_options_of_the_command() -> None:
    fields, specs = fields_of(PAPER.Options), ReproduceOptions.specs()
    assert list(fields) == list(PAPER.readings)
    for name, reading in PAPER.readings.items():
        assert fields[name].kind.names == ("all", *reading.values)  # type: ignore[attr-defined]
        assert (specs[name].kind, specs[name].group) == (fields[name].kind, READINGS)
        assert set(reading.systems) <= set(PAPER.systems)


@pytest.mark.parametrize("experiment", PAPER.experiments.values(), ids=lambda e: e.label)
def test_every_run_is_a_command_that_is_accepted(experiment: Any) -> None:
    entries = list(entries_of(PAPER, experiment, PAPER.datasets_of(experiment), {}, {"order": "file", "initial": 500}))
    assert len({entry.key for entry in entries}) == len(entries)
    assert bool(entries) == (experiment.label not in ("table 3", "table 4", "figure 1", "figure 2"))
    for entry in entries:
        kind = OnlineOptions if entry.command == "online" else BatchOptions
        kind(dataset=entry.dataset, **entry.options)
    for name in experiment.systems:
        assert sum(entry.system == name and entry.reading is None for entry in entries) == len(PAPER.datasets)


def test_the_other_readings_differ_in_one_point_and_a_chosen_one_stands_alone() -> None:
    table = PAPER.find("table", "5")
    entries = list(entries_of(PAPER, table, ["a9a"], {}, {}))
    forest = {entry.reading: entry.options for entry in entries if entry.system == "ik_i_ogd"}
    base = {"learner": ["ogd"], "partitioner": "iforest", "t": 100, "select_by": "accuracy"}
    assert forest == {
        None: base,
        ("depth", "log2"): {**base, "max_depth": "log2"},
        ("score_scale", "raw"): {**base, "feature_scale": "raw"},
    }
    chosen = {"depth": "log2", "score_scale": "kernel"}
    (only,) = [e for e in entries_of(PAPER, table, ["a9a"], chosen, {}) if e.system == "ik_i_ogd"]
    assert only.reading is None
    assert only.options == {**base, "max_depth": "log2"}
    assert only.key == "a9a/ik_i_ogd-depth-log2"
    assert shown(PAPER.readings["depth"], chosen) == "log2"
    assert shown(PAPER.readings["nogd"], chosen) == "averaged"


def test_readings_of_the_same_option_hold_together() -> None:
    table = PAPER.find("table", "7")
    raw = {e.reading: e.options["C"] for e in entries_of(PAPER, table, ["a9a"], {"svm_scale": "raw"}, {}, ["ik_a_svm"])}
    kernel = {e.reading: e.options["C"] for e in entries_of(PAPER, table, ["a9a"], {}, {}, ["ik_a_svm"])}
    assert raw == {reading: 100 * kernel[reading] for reading in raw}
    assert kernel["svm_scale", "raw"] == raw[None] == 100
    assert raw["svm_C", "0.1"] == 10


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "--table, --figure, --section: found none"),
        ({"figure": ("3",), "systems": ("ogd",)}, "--systems: found without --table"),
        ({"table": ("9",)}, "--table: found '9'"),
    ],
)
def test_what_is_asked_for_is_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ReproduceOptions(**values)
