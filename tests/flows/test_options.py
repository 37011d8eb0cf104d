"""Options: one declaration behind command line, TOML and JSON, and what is refused of them."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import FrozenInstanceError, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options import page as options_page
from flows.options.batch import BatchOptions
from flows.options.common import CommonOptions
from flows.options.kinds import Duration
from flows.options.online import OnlineOptions
from flows.options.presets import PRESETS
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from flows.runs.batch import batch_params, table_request
from ikmap.learners.rows import Block
from ikmap.methods import (
    KERNELS,
    LEARNERS,
    MAPS,
    DualLearner,
    Growable,
    HasFourier,
    Method,
    Sample,
    StreamLearner,
    Training,
    configured,
    fields_by_name,
    fields_of,
    methods,
)
from ikmap.methods.registry import WITHOUT_PAPERS, has_papers
from ikmap.methods.reserved import RESERVED
from ikmap.partitioners import fit_partitions
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import InputError
from pipeline.resolve import chosen, plain_fields
from pipeline.urls import Location
from tests.support.machine import papers_installed
from tests.support.papers import with_papers
from tests.support.params_for import params_for

COMMANDS = options_page.COMMANDS
of_papers: Any = import_module("tests.ikmap_papers.options") if has_papers() else None


def test_methods_cannot_have_options_with_names_of_the_commands_own() -> None:
    """What an option of a command, or a function of its options, is called is reserved: no more and no less."""
    ours = {"config", "preset", "help", "help_all", "scoped", *dir(Method)}
    for command in COMMANDS:
        ours |= {*dir(command), *command.specs()} - set(command.METHOD_OPTIONS)
    assert {name for name in ours if not name.startswith("_") and name.islower()} == RESERVED
    assert not RESERVED & plain_fields(list(methods())).keys()


# Every option of both commands, none of them at its default.
BATCH = BatchOptions(
    input="s3://bucket/my data.csv", test_input="-odd.csv", format="csv", label="it's", columns=7,
    scale="minmax", task="binary", data_dir="data", partitioner="iforest", max_depth="log2", t=17, psi=64,
    cv_rows=500, search="full", budget=60.0, select_by="roc_auc", calibration="isotonic",
    threshold_for="cost:5:1", split_by="time:day", importance=True,
    learner=("ogd", "logistic", "svm", "kernel-ogd", "chi2-linear", "fourier-linear", "idk"), C=0.25, loss="hinge",
    tol=1e-2, eta=2.0, feature_scale="raw", order="file", kernel="gaussian", gamma="auto", average=True, features=9,
    chi2_order=1, class_weight="balanced", solver="distributed", parts=5, seed=3, run_dir="runs/x", fresh=True,
    above=3.5, drop=("q", "Population, total", '5" pipe'), id="who", weight="w", delimiter=";", header=("a", "b"),
    encoding="latin-1", missing=("NA", "-"), category=("c", "d"), columns_plan="plan.toml",
    encode_numbers="quantile", encode_categories="onehot", encode_times="cycles",
    inliers=("11", "b"), alert_rate=0.2, half_life=50.0,
    shard_rows=1000, device="gpu", cluster="slurm", cluster_option=("queue=a", "prologue=x y"), workers=2,
    memory_limit="4GB", no_dask_report=True, debug=True, quiet=True,
)  # fmt: skip
DATASET = BatchOptions(
    dataset="a9a",
    dataset_file="mine.toml",
    explain=True,
    dry_run=True,
    test_size=0.5,
    partitioner="gcws",
    b=6,
    p=2.0,
    bits=512,
    code="0-bit",
    learner=("svr", "kernel-svm"),
    epsilon=0.25,
    svr_loss="epsilon_insensitive",
    kernel="egmm",
    le=2.0,
)
TREES = BatchOptions(
    dataset="a9a", partitioner="mondrian", lifetime=2.5, learner=("quantile",), quantiles="0.1,0.9", task="regression"
)
NORMA = BatchOptions(
    dataset="a9a", task="novelty", learner=("norma",), nu=0.25, schedule="horizon", horizon=9000, regularization=0.0,
    clip_rho=True, iterate="last",
)  # fmt: skip
NUMBERS = BatchOptions(dataset="a9a", learner=("norma",), threshold=2.0, offset="yes")
FEATURES = BatchOptions(
    dataset="a9a",
    learner=("fourier-ridge", "ridge", "two-stage-gmm"),
    kernel="gaussian",
    orthogonal=True,
    sweep_by="sgd",
    codes=64,
    code_bits=4,
)
FOREST = BatchOptions(
    dataset="a9a", partitioner="forest", splits="best", max_features=0.25, min_leaf=9, criterion="entropy"
)
BOOSTING = BatchOptions(
    dataset="a9a", task="regression", learner=("boosting",), rounds=50, shrinkage=0.05, max_leaves=15, min_leaf=7,
    l2=2.0, row_share=0.75, column_share=0.5, held_out=0.25, patience=5, quantile_level=0.75,
)  # fmt: skip
STACKING = BatchOptions(
    dataset="a9a", learner=("stacking",), base_models="boosting,anne", n_folds=3, refits=2, max_bins=1024,
    backfit=20, backfit_l2=100.0,
)  # fmt: skip
SAMPLES = (
    BATCH,
    DATASET,
    TREES,
    FOREST,
    BOOSTING,
    STACKING,
    NORMA,
    NUMBERS,
    FEATURES,
    *(of_papers.SAMPLES if of_papers else ()),
)
ONLINE = OnlineOptions(
    input="x.csv",
    label="y",
    learner=("idk",),
    initial=10,
    block_rows=7,
    limit_seconds=2.5,
    order="file",
    alerts="-",
    warm_up=5,
    drift="adwin",
    drift_delta=0.1,
    on_drift="redraw",
    redraw_rows=70,
)
SCORE = ScoreOptions(
    model="runs/x", learner="svm", input="new.npy", format="npy", label="y", output="out.parquet",
    cluster="tls://host:1", cluster_option=("tls=certificates",), workers=3, memory_limit="1GB", debug=True, quiet=True,
)  # fmt: skip
OTHERS = (SCORE, *(of_papers.REPRODUCE if of_papers else ()))


def refused(argv: str | list[str], command: type[CommonOptions] = BatchOptions) -> str:
    with pytest.raises(InputError) as caught:
        command.parse(shlex.split(argv) if isinstance(argv, str) else argv)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "address", ["s3://key:secret@bucket/a.csv", "https://:secret@host/a.csv", "sftp://a:secret@b/c"]
)
def test_a_password_is_refused_and_not_shown(address: str, tmp_path: Path) -> None:
    """Options go into run.toml, reports, logs and Prefect's parameters."""
    (tmp_path / "run.toml").write_text(f'input = "{address}"\n')
    for words in (["--input", address], ["--run-dir", address], ["--config", str(tmp_path / "run.toml")]):
        with pytest.raises(InputError, match="found a password in an address") as refused:
            BatchOptions.parse(words)
        assert "secret" not in str(refused.value)
    assert BatchOptions.parse(["--input", "s3://bucket/a:b@c.csv"]).input == "s3://bucket/a:b@c.csv"


def test_samples_leave_no_option_at_its_default() -> None:
    for name, spec in BatchOptions.specs().items():
        assert [getattr(sample, name) for sample in SAMPLES] != [spec.default] * len(SAMPLES), name
    for sample in OTHERS:
        assert [
            n
            for n, spec in sample.specs().items()
            if getattr(sample, n) == spec.default and n not in {"paper", *sample.unused}
        ] == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if of_papers or command is not ReproduceOptions])
def test_defaults_are_values_that_could_be_given(command: type[CommonOptions]) -> None:
    """A default is not checked when nobody gives a value."""
    scoped = [option for options in command.SCOPES.values() for option in options.values()]
    for option in [*command.specs().values(), *scoped]:
        if not option.required and option.default is not None:
            assert option.check(option.default) == option.default
            assert type(option.check(option.default)) in (type(option.default), Location)


def test_only_what_is_given_is_set() -> None:
    options = BatchOptions(psi=8, seed=0)
    assert {"psi", "seed"} == vars(options).keys() & BatchOptions.specs().keys()
    assert options.at_default == BatchOptions.specs().keys() - {"psi"}
    assert options == BatchOptions.parse(["--psi", "8"]) != BatchOptions()
    with pytest.raises(TypeError, match="found 'pssi', expected an option of "):
        BatchOptions(pssi=8)
    with pytest.raises(AttributeError, match="BatchOptions has no 'pssi'"):
        _ = options.pssi
    with pytest.raises(FrozenInstanceError):
        options.psi = 9


@pytest.mark.parametrize(
    ("words", "average"), [("", True), ("=true", True), ("=false", False), (" true --t 5", True), (" --t 5", True)]
)
def test_a_scoped_flag_takes_a_word_or_none(words: str, average: bool) -> None:
    options = BatchOptions.parse(shlex.split(f"--learner ogd --ogd.average{words}"))
    assert options.scoped == {"ogd": {"average": average}}


def test_a_scoped_flag_refuses_other_words() -> None:
    assert refused("--learner ogd --ogd.average=yes") == "--ogd.average: found 'yes', expected true or false"
    assert refused("--learner ogd --ogd.average no").startswith("--ogd.average: found 'no'")


@pytest.mark.parametrize(
    "options",
    [BatchOptions(), *SAMPLES, OnlineOptions(), ONLINE, *OTHERS],
    ids=lambda options: options.command()[10:50],
)
def test_round_trips(options: Any) -> None:
    kind = type(options)
    assert kind.parse(shlex.split(options.command())[3:]) == options
    record = json.loads(json.dumps(options.to_dict()))
    assert kind(**record) == options
    assert record.keys() == kind.specs().keys()

    sessions = {name: spec.default for name, spec in kind.specs().items() if spec.session}
    assert kind.from_toml(options.to_toml()) == replace(options, **sessions)
    assert kind.parse(shlex.split(options.command(session=False))[3:]) == replace(options, **sessions)


def test_names_of_columns_may_be_empty_or_have_blanks_around_them() -> None:
    words = ["--id", '""', "--weight", ' "a"', "--label", '" y"', "--drop", '""," b"', "--split-by", 'time:""']
    options = BatchOptions.parse(words)
    assert (options.id, options.weight, options.label, options.drop) == ("", ' "a"', " y", ("", " b"))
    assert BatchOptions.parse(shlex.split(options.command())[3:]) == options
    assert BatchOptions.from_toml(options.to_toml()) == options
    assert BatchOptions(**json.loads(json.dumps(options.to_dict()))) == options
    request = table_request(options)
    assert (request.id, request.split_column) == ("", "")


@with_papers
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_the_options_it_stands_for(preset: str) -> None:
    options = BatchOptions.parse(["--preset", preset, "--seed", "3"])
    assert {name: getattr(options, name) for name in PRESETS[preset]} == PRESETS[preset]
    assert "preset" not in options.command() + options.to_toml()
    assert BatchOptions.parse(shlex.split(options.command())[3:]) == options
    assert BatchOptions.from_toml(options.to_toml()) == options
    batch_params(options)


def test_what_is_given_wins_over_a_preset(tmp_path: Path) -> None:
    words = ["--preset", "isolation-kernel"]
    assert BatchOptions.parse([*words, "--t", "9", "--select-by", "log_loss"]) == BatchOptions(
        learner=("svm",), partitioner="anne", t=9, C=1.0, select_by="log_loss"
    )
    # Options that another learner or map does not have are left out, and the criterion where nothing is to be chosen.
    assert BatchOptions.parse([*words, "--learner", "ogd"]) == BatchOptions(
        learner=("ogd",), partitioner="anne", t=100, select_by="accuracy"
    )
    assert BatchOptions.parse([*words, "--psi", "8"]) == BatchOptions(
        learner=("svm",), partitioner="anne", t=100, C=1.0, psi=8
    )
    assert BatchOptions.parse([*words, "--svm.C", "3"]).by_method["svm"]["C"] == 3.0
    file = tmp_path / "own.toml"
    file.write_text("t = 7\n")
    assert BatchOptions.parse([*words, "--config", str(file)]).t == 7


def test_a_preset_that_is_not_known_is_refused() -> None:
    assert refused("--preset isolation") == (
        f"--preset isolation: did you mean isolation-kernel? expected one of {', '.join(PRESETS)}"
    )
    with pytest.raises(InputError, match="--preset"):
        OnlineOptions.parse(["--preset", "norma"])


def test_command_names_only_what_is_not_default() -> None:
    assert BatchOptions().command() == "python -m flows.batch"
    assert BatchOptions(dataset="a9a", psi=4).command() == "python -m flows.batch --dataset a9a --psi 4"


def test_defaults() -> None:
    options = BatchOptions.parse([])
    assert (options.t, options.psi, options.learner, options.test_size) == (None, "auto", ("auto",), 0.2)
    assert (options.eta, options.C, options.seed, options.cluster) == (None, None, 0, "local")
    assert (options.partitioner, options.map, options.cv_rows, options.workers) == ("auto", "auto", 20_000, None)
    (of_map,) = (values for name, values in batch_params(options).methods.items() if name in MAPS)
    assert (of_map["t"], of_map["psi"], of_map["max_depth"]) == (300, "auto", "none")
    assert "iforest" in batch_params(options).methods


@pytest.mark.parametrize(
    ("given", "C"), [("", "auto"), ("--psi 8", 5.0), ("--C 2", 2.0), ("--psi 8 --C auto", "auto"), ("--C 5", 5.0)]
)
def test_C_is_chosen_where_psi_is(given: str, C: float | str) -> None:
    assert batch_params(BatchOptions.parse(["--learner", "svm", *shlex.split(given)])).methods["svm"]["C"] == C


def test_types_from_the_command_line() -> None:
    options = BatchOptions.parse(shlex.split("--psi 8 --C 2 --learner=svm,ogd,svm --fresh --workers 1"))
    assert (options.psi, options.C, options.learner) == (8, 2.0, ("svm", "ogd"))
    assert isinstance(options.C, float)
    assert BatchOptions.parse(["--C", "auto"]).C == "auto"
    assert options.fresh is True
    assert options.workers == 1


@pytest.mark.parametrize(
    ("argv", "found", "expected"),
    [
        ("--t 0", "--t: found 0", "an integer >= 1"),
        ("--t -1", "--t: found -1", "an integer >= 1"),
        ("--t 1.5", "--t: found '1.5'", "an integer >= 1"),
        ("--psi 0", "--psi: found 0", "or 'auto'"),
        ("--psi many", "--psi: found 'many'", "an integer >= 1, or 'auto'"),
        ("--test-size 1", "--test-size: found 1", "> 0 and < 1"),
        ("--test-size 0", "--test-size: found 0", "> 0 and < 1"),
        ("--C 0", "--C: found 0", "a number > 0"),
        ("--C nan", "--C: found nan", "a finite number > 0"),
        ("--C inf", "--C: found inf", "a finite number > 0"),
        ("--eta -0.5", "--eta: found -0.5", "a number > 0"),
        ("--eta x", "--eta: found 'x'", "a number > 0"),
        ("--tol 0", "--tol: found 0", "a number > 0"),
        ("--seed -1", "--seed: found -1", "an integer >= 0"),
        ("--workers 0", "--workers: found 0", "an integer >= 1"),
        ("--columns 0", "--columns: found 0", "an integer >= 1"),
        ("--shard-rows 0", "--shard-rows: found 0", "an integer >= 1"),
        ("--learner svmm", "--learner: found 'svmm'", "did you mean 'svm'?"),
        ("--learner ''", "--learner: found ''", "one of auto, svm, logistic, ridge, svr, ogd"),
        ("--format libsv", "--format: found 'libsv'", "did you mean 'libsvm'?"),
        ("--label ''", "--label: found ''", "not empty"),
        ("--cluster tcp://", "--cluster: found 'tcp://'", "tcp://host:8786"),
        ("--cluster tcp://host:x", "--cluster: found 'tcp://host:x'", "tcp://host:8786"),
        ("--cluster http://host:80", "--cluster: found 'http://host:80'", "tcp://host:8786"),
        ("--lerner svm", "unknown option --lerner", "did you mean --learner?"),
        ("--tes 1", "unknown option --tes", "did you mean --t"),
        ("a9a", "unexpected argument 'a9a'", "--help"),
        ("--t", "argument --t: expected one argument", "--help"),
        ("--fresh=1", "argument --fresh", "--help"),
        ("--dataset a9a --input x", "--dataset and --input: found both", "one of them"),
        ("--test-input x", "--test-input: found without --input", "both"),
        ("--dry-run --quiet", "--dry-run and --quiet: found both", "only prints its plan"),
        ("--explain --quiet", "--explain and --quiet: found both", "--quiet prints no plan"),
        ("--input x --dataset-file y", "--dataset-file: found with --input", "--dataset"),
        ("--input x --test-input y --test-size 0.3", "--test-input and --test-size: found", "one of"),
        ("--partitioner anne --max-depth log2", "--max-depth log2: found --partitioner anne", "iforest"),
        ("--features 30", "--features 30: found --learner auto", "expected one of fourier-linear, fourier-ridge"),
        ("--learner svm,auto", "--learner: found 'auto' with others", "expected it alone"),
        ("--task regression --class-weight balanced", "found --learner auto", "one of svm, logistic"),
        ("--average --learner kernel-svm", "--average: found --learner kernel-svm", "expected o"),
        ("--learner kernel-ogd --gamma 0.5 --psi 8", "--psi 8: found --learner kernel-ogd", "of svm, logistic"),
        ("--learner isolation-svm --C auto", "--C auto: found --learner isolation-svm", "one of svm, logistic"),
        ("--learner ogd --psi 8 --cv-rows 50", "--cv-rows 50: found nothing to choose", "auto"),
        ("--learner ogd --psi 8 --budget 50", "--budget 50.0: found nothing to choose", "auto"),
        ("--psi 8 --search full", "--search full: found nothing to choose", "auto"),
        ("--search full", "--search full: found no --learner, so that the run chooses the model", "--learner svm"),
        ("--select-by roc_auc", "--select-by roc_auc: found no --learner", "--learner svm"),
        ("--search half", "--search: found 'half'", "race"),
        ("--budget 0", "--budget: found '0'", "a time above 0"),
        ("--budget inf", "--budget: found 'inf'", "a time above 0, such as 90, 90s, 10m or 1h"),
        ("--budget 5d", "--budget: found '5d'", "a time above 0"),
        ("--task regresion", "--task: found 'regresion'", "did you mean 'regression'?"),
        ("--cluster slurn", "--cluster: found 'slurn'", "did you mean 'slurm'?"),
        ("--cluster-option queue", "--cluster-option: found 'queue'", "KEY=VALUE"),
    ],
)  # fmt: skip
def test_bad_command_line_is_one_line(argv: str, found: str, expected: str) -> None:
    text = refused(argv)
    assert found in text
    assert expected in text


@pytest.mark.parametrize(
    ("argv", "found", "expected"),
    [
        ("--C 2", "--C 2.0: found --learner ogd", "expected online-ridge"),
        ("--chi2-order 1", "--chi2-order 1: found flows.online", "flows.batch with chi2-linear"),
        ("--kernel gaussian", "--kernel gaussian: found --learner ogd", "kernel-ogd"),
        ("--initial 10 --test-size 0.3", "--initial and --test-size: found both", "one of them"),
        ("--learner svm", "--learner: found 'svm'", "one of ogd"),
    ],
)
def test_a_stream_refuses_what_is_not_of_it(argv: str, found: str, expected: str) -> None:
    text = refused(argv, OnlineOptions)
    assert found in text
    assert expected in text


# --- what a learner uses -------------------------------------------------------------------------------

# A value that is no default for each option that some learners use, with what it takes to give it.
GIVEN: dict[str, dict[str, Any]] = {
    "partitioner": {"partitioner": "iforest"}, "t": {"t": 7}, "max_depth": {"max_depth": "log2"}, "psi": {"psi": 8},
    "epsilon": {"epsilon": 0.3}, "svr_loss": {"svr_loss": "epsilon_insensitive"},
    "C": {"C": 2.0}, "tol": {"tol": 0.1}, "class_weight": {"class_weight": "balanced"}, "loss": {"loss": "hinge"},
    "solver": {"solver": "block"}, "parts": {"parts": 3}, "eta": {"eta": 1.0}, "order": {"order": "file"},
    "feature_scale": {"feature_scale": "raw"}, "kernel": {"kernel": "gaussian", "gamma": 0.5},
    "gamma": {"gamma": 0.5}, "b": {"partitioner": "gcws", "b": 6}, "average": {"average": True},
    "features": {"features": 9},
    "codes": {"codes": 20}, "code_bits": {"code_bits": 3}, "sweep_by": {"sweep_by": "sgd"},
    "orthogonal": {"kernel": "gaussian", "orthogonal": True},
    "code": {"partitioner": "gcws", "code": "0-bit"}, "bits": {"partitioner": "gcws", "bits": 300},
    "chi2_order": {"chi2_order": 2}, "alert_rate": {"alert_rate": 0.1}, "half_life": {"half_life": 100.0},
    "lifetime": {"partitioner": "mondrian", "lifetime": 0.5},
    "nu": {"nu": 0.3}, "schedule": {"schedule": "root"}, "horizon": {"schedule": "horizon", "horizon": 100},
    "regularization": {"regularization": 0.5}, "offset": {"offset": "no"}, "threshold": {"threshold": 2.0},
    "clip_rho": {"clip_rho": True}, "iterate": {"iterate": "mean"},
    "splits": {"partitioner": "forest", "splits": "best"}, "min_leaf": {"min_leaf": 2},
    "criterion": {"partitioner": "forest", "criterion": "entropy"},
    "max_features": {"partitioner": "forest", "max_features": 0.25},
    "rounds": {"rounds": 7}, "shrinkage": {"shrinkage": 0.05}, "max_leaves": {"max_leaves": 8}, "l2": {"l2": 2.0},
    "row_share": {"row_share": 0.5}, "column_share": {"column_share": 0.5}, "held_out": {"held_out": 0.2},
    "base_models": {"base_models": "anne,boosting"}, "n_folds": {"n_folds": 4}, "refits": {"refits": 3},
    "patience": {"patience": 9}, "max_bins": {"max_bins": 999}, "backfit": {"backfit": 5},
    "backfit_l2": {"backfit_l2": 9.0}, "quantile_level": {"quantile_level": 0.9, "task": "regression"},
    "quantiles": {"quantiles": "0.1,0.9"}, "p": {"partitioner": "gcws", "p": 1.0}, "le": {"kernel": "egmm", "le": 2.0},
    **(of_papers.GIVEN if of_papers else {}),
}  # fmt: skip
UNREAD: dict[str, set[str]] = of_papers.UNREAD if of_papers else {}
"""Options that a learner only refuses, in a line of its own."""


RUN_OPTIONS = {"partitioner": "cells", "order": "online"}
"""Options of a run that only some learners use: those that are on something, or learn in some way."""


def uses(learner: str, name: str, given: dict[str, Any]) -> bool:
    """Whether a learner, or the map that it needs, has an option that changes something beside those given."""
    kind = LEARNERS[learner]
    if name in RUN_OPTIONS:
        return RUN_OPTIONS[name] in (kind.about.on, "online" if issubclass(kind, StreamLearner) else "batch")
    if name in UNREAD.get(learner, ()):
        return False  # it refuses all values but one
    if "kernel" in given and name != "kernel" and "kernel" not in fields_of(kind):
        return False  # that is refused
    on_features = {"features", "kernel"} <= fields_of(kind).keys()
    if on_features and not issubclass(KERNELS[given.get("kernel", "laplacian")], HasFourier):
        return False
    for one in chosen(given.get("partitioner", kind.about.usual_map), [learner], given):
        known = fields_by_name(one)
        if name in known:
            method, searched = configured(one, {k: v for k, v in given.items() if k in known})
            if name not in method.ignored(searched):
                return True
    return False


@pytest.mark.parametrize("command", [BatchOptions, OnlineOptions])
def test_the_map_of_a_run_that_names_none_is_the_usual_one_of_its_learners(
    command: type[BatchOptions | OnlineOptions],
) -> None:
    for learner, expected in (("norma", "iforest"), ("ogd", "iforest"), ("idk", "inne")):
        assert command(dataset="a9a", learner=(learner,)).map == expected
    assert command(dataset="a9a", learner=("norma",), partitioner="anne").map == "anne"


@pytest.mark.slow
@pytest.mark.parametrize("command", [BatchOptions, OnlineOptions])
@pytest.mark.parametrize("name", sorted(GIVEN))
def test_an_option_that_no_chosen_learner_uses_is_refused(
    name: str, command: type[BatchOptions | OnlineOptions]
) -> None:
    # Trees, where their depth is the question: with learners that have none, already these are refused.
    base = {"partitioner": "iforest"} if name == "max_depth" else {}
    for learner in command._learners():
        about = LEARNERS[learner].about
        of_map = MAPS[{**base, **GIVEN[name]}.get("partitioner", about.usual_map)]
        if about.on == "cells" and not of_map.about.tables.issuperset(about.needs_tables):
            continue  # refused for another reason
        of_streams = command is OnlineOptions and issubclass(of_map, Growable)
        if of_streams and not getattr(LEARNERS[learner], "grows", False):
            continue  # likewise
        if uses(learner, name, {**base, **GIVEN[name]}):
            less = command(learner=(learner,), **(base if about.on == "cells" else {}))
            more = command(learner=(learner,), **base, **GIVEN[name])
            if GIVEN[name].get("partitioner") != about.usual_map:
                assert batch_params(less) != batch_params(more)
            assert command.from_toml(more.to_toml()) == more
        else:
            with pytest.raises(InputError) as caught:
                command(learner=(learner,), **base, **GIVEN[name])
            # Any of these: learners with a kernel use that, and not all that goes with it.
            flags = [spec.flag for spec in command.specs().values() if spec.name in {**base, **GIVEN[name]}]
            assert str(caught.value).startswith(tuple(f"{flag}{end}" for flag in flags for end in (" ", ": ")))
            assert "found" in str(caught.value)
            assert "expected" in str(caught.value)


def test_every_option_of_methods_is_tried() -> None:
    of_methods = set(plain_fields(list(methods())))
    assert GIVEN.keys() == of_methods | RUN_OPTIONS.keys()
    assert BatchOptions.specs().keys() >= of_methods


@pytest.mark.parametrize("learner", LEARNERS)
def test_options_of_a_learner_are_what_it_reads(learner: str) -> None:
    """Between the declaration and the code that makes a learner, nothing is forgotten on either side."""
    rng, kind, read = np.random.default_rng(0), LEARNERS[learner], set()
    X, y = rng.random((40, 3)), np.arange(40) % 2
    steps = {"schedule": "horizon", "horizon": 100}  # without the one the other is not read
    params = params_for(learners=(learner,), partitioner=kind.about.usual_map, b=10, features=4, t=6, C=1.0, **steps)
    given = {name: getattr(params.of(learner), name) for name in fields_of(kind)}

    def noted(one: Any, name: str) -> Any:
        read.add(name)
        return kind.__getattribute__(one, name)

    one = type("Noting", (kind,), {"__getattribute__": noted})(**given)
    read.clear()
    elsewhere = set()  # what stages read
    rows: Any = X
    if kind.about.on == "cells":
        draws = np.array([rng.permutation(40)[:4] for _ in range(6)])
        model = fit_partitions(X, draws, method="anne", seed=0)
        rows = model.cells(X).packed()
    if issubclass(kind, DualLearner):
        assert one.problem.C == 1.0
        elsewhere = {"solver", "parts"}
    elif issubclass(kind, StreamLearner):
        offsets = model.offsets if kind.about.on == "cells" else None
        one.start(Sample(40, 3, CLASSIFICATION.of([0, 1]), lambda numbers: X[numbers], 0, offsets))
    else:
        elsewhere = {"solver", "sweep_by"}
        tables = dict.fromkeys(MAPS[kind.about.usual_map].about.tables, np.ones(24))
        one.fit(Training(Block(rows, y), [0, 1], 0, tables=tables))
    own = fields_of(kind).keys()
    assert (read & own) | (elsewhere & own) | UNREAD.get(learner, set()) == own


def test_bad_value_in_python_is_refused_too() -> None:
    with pytest.raises(InputError, match="--t: found 0"):
        BatchOptions(t=0)
    with pytest.raises(InputError, match="--t: found True"):
        BatchOptions(t=True)
    with pytest.raises(InputError, match="--test-size: found None"):
        BatchOptions(test_size=None)


@pytest.mark.parametrize("name", ["p.tsv", "P.TXT", "s3://bucket/p.json", "p.npy", "p.parquet.gz"])
def test_scores_are_not_written_under_the_name_of_another_format(name: str) -> None:
    said = refused(["--model", "runs/a", "--input", "b.csv", "--output", name], ScoreOptions)
    assert said.startswith(f"--output {name}: found the name of another format, expected one in .parquet")


def test_score_needs_model_and_input() -> None:
    assert refused("--input x", ScoreOptions).startswith("--model: required")
    assert "--model" in refused("", ScoreOptions)
    assert "--input" in refused("", ScoreOptions)


def test_config_file_and_flags_that_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text('dataset = "a9a"\ntest-size = 0.3\nrun_dir = "r"\nt = 5\nquiet = true\nlearner = ["svm"]\nC = 3\n')
    options = BatchOptions.parse(["--config", str(file), "--t", "7", "--no-quiet"])
    assert (options.dataset, options.test_size, options.run_dir) == ("a9a", 0.3, "r")
    assert (options.t, options.quiet, options.learner, options.C) == (7, False, ("svm",), 3.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert BatchOptions.parse(["--config", "~/run.toml", "--t", "7", "--no-quiet"]) == options


@with_papers
def test_the_directory_of_a_paper_may_be_named_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert replace(of_papers.REPRODUCE[0], run_dir="~/x").directory == tmp_path / "x"


def test_config_file_satisfies_required_options(tmp_path: Path) -> None:
    file = tmp_path / "score.toml"
    file.write_text(SCORE.to_toml())
    assert ScoreOptions.parse(["--config", str(file), "--debug", "--quiet"]) == SCORE


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lerner = 'svm'", "unknown option 'lerner'; did you mean 'learner'?"),
        ("[data]\nx = 1", "unknown option 'data'"),
        ("t = '5'", "t: found '5', expected an integer >= 1"),
        ("t = true", "t: found True, expected an integer >= 1"),
        ("t = 0", "t: found 0, expected an integer >= 1"),
        ("test-size = 2", "test-size: found 2, expected a number > 0 and < 1"),
        ("fresh = 1", "fresh: found 1, expected true or false"),
        ("learner = []", "learner: found [], expected a list of"),
        ("learner = [1]", "learner: found 1, expected one of"),
        ("label = 3", "label: found 3, expected a text"),
        ("test-size = 0.1\ntest_size = 0.2", "test_size: given twice"),
        ("debug = true", "debug: give --debug on the command line"),
        ("t = ", "not TOML"),
    ],
)
def test_bad_config_names_file_and_key(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "my.toml"
    file.write_text(text)
    message = refused(["--config", str(file)])
    assert message.startswith(str(file))
    assert found in message


def test_config_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in refused(["--config", str(tmp_path / "none.toml")])
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    said = refused(["--config", str(tmp_path / "bytes.toml")])
    assert "not UTF-8" in said
    assert "iconv -f latin1 -t utf-8" in said


def test_run_toml_is_toml_without_session_options() -> None:
    found = tomllib.loads(BATCH.to_toml())
    assert found["t"] == 17
    assert found["learner"][:2] == ["ogd", "logistic"]
    assert not found.keys() & {"run_dir", "fresh", "debug", "explain", "quiet", "config"}


def test_an_option_that_the_learner_has_but_not_so_names_no_other_learner() -> None:
    with pytest.raises(InputError, match=r"--nu 0\.3: found .*norma, which do not use it with the other options"):
        OnlineOptions.parse(["--dataset", "a9a", "--learner", "norma", "--loss", "hinge", "--nu", "0.3"])


@pytest.mark.parametrize("words", ["--learner adarakr", "--kernel nowhere --learner kernel-svm"])
def test_a_line_says_that_a_method_may_be_one_of_the_papers(words: str) -> None:
    with papers_installed(False):
        assert "expected one of" in refused(words)
        assert refused(words).endswith(WITHOUT_PAPERS)
        assert not refused("--format libsv").endswith(WITHOUT_PAPERS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("1e2", 100.0), (" 10 m ", 600.0), (0.5, 0.5)],
)
def test_durations_are_seconds(text: str | float, seconds: float) -> None:
    duration = Duration()
    assert duration.check(text) == seconds
    flag, written = duration.written("--budget", duration.check(text))
    assert (flag, duration.parse(written)) == ("--budget", seconds)
