"""A stranger's package: the example is installed, and its methods do all that ours do; faulty ones are one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from annotated_types import Ge, Le

from ikmap.learners.linear_model import LinearModel
from ikmap.methods import Doc, LearnerAbout, Sample
from ikmap.methods.ogd import OGD
from ikmap.methods.registry import PACKAGES
from pipeline.errors import InputError
from pipeline.resolve import shared_out
from pipeline.running.foreign import check_cells
from pipeline.stages.evaluate import evaluate
from pipeline.training.train import train
from tests import ROOT
from tests.plugins import registered
from tests.support.params_for import params_for
from tests.support.runs import mapped

EXAMPLE = ROOT / "examples" / "plugin"
WORDS = [
    *("--partitioner", "simhash", "--learner", "svm,perceptron", "--t", "20", "--workers", "1"),
    *("--margin", "0.5", "--no-dask-report"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed, as a user would: by pip."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run(
        [*pip, "--target", folder / "site", folder / "source"], check=True, capture_output=True, cwd=folder, timeout=300
    )
    return folder / "site"


def start(site: Path, words: list[str], program: str = "flows.batch", **how: Any) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "IKMAP_PACKAGES"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", program, *words], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, **how,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def models(run: Path) -> dict[str, Any]:
    found = json.loads((run / "metrics.json").read_text())
    learners = found["learners"].items()
    return {
        name: [of[key] for key in ("accuracy", "cells", "parameter", "value", "content_hash")] for name, of in learners
    }


def test_help_lists_it(site: Path) -> None:
    status, text, _ = finished(start(site, ["--help-all"]))
    assert status == 0
    for word in ("simhash", "perceptron", "--planes N|auto", "--margin X"):
        assert word in text


def test_it_does_what_all_methods_have_to(site: Path) -> None:
    status, text, err = finished(start(site, ["simhash", "perceptron"], "ikmap.methods.checks"))
    assert (status, err) == (0, "")
    assert text == "simhash: passed\nperceptron: passed\n"


def test_its_map_takes_no_more_memory_than_it_says(site: Path) -> None:
    status, text, err = finished(start(site, ["simhash"], "ikmap.methods.checks.memory"))
    assert (status, err) == (0, ""), text
    assert len(text.splitlines()) == 3


def test_it_is_chosen_for_trained_and_scores(site: Path, tmp_path: Path) -> None:
    whole, y = tmp_path / "whole", np.arange(300) % 2
    X = np.random.default_rng(0).normal(size=(300, 5)) + (2.0 * y - 1.0)[:, None]
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labelled.npy", np.c_[X, y])
    given = ["--input", str(tmp_path / "labelled.npy"), "--label", "-1", "--run-dir", str(whole)]
    status, _, err = finished(start(site, [*WORDS, *given]))
    assert status == 0, err
    expected = models(whole)
    selection = json.loads((whole / "metrics.json").read_text())["selection"]
    assert selection["parameter"] == "planes"
    assert len(selection["planes"]) > 3
    assert {of[2] for of in expected.values()} == {"planes"}
    assert min(of[0] for of in expected.values()) > 0.8
    asked = ["--model", str(whole), "--learner", "perceptron", "--input", str(tmp_path / "rows.npy")]
    asked += ["--output", str(tmp_path / "predicted.parquet"), "--workers", "1"]
    status, _, err = finished(start(site, asked, "flows.score"))
    assert status == 0, err
    assert (tmp_path / "predicted.parquet").exists()


def test_a_task_of_a_package_goes_through_the_command(tmp_path: Path) -> None:
    """On workers too; its word is one of ``--task``, and its learner's one of ``--learner``."""
    site = installed(
        tmp_path,
        "strange",
        {"numbers": "tests.plugins.number_task:Numbers", "by": "tests.plugins.number_task:ByCounts"},
    )
    assert re.search(r"\{auto,binary,[a-z,]*numbers\}", finished(start(site, ["--help-all"]))[1])
    X = np.random.default_rng(0).random((300, 3))
    lines = [",".join(map(repr, [*row, 2 * row[0] + row[1]])) for row in X.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,target", *lines]))
    asked = ["--input", str(tmp_path / "rows.csv"), "--task", "numbers", "--learner", "by-counts", "--workers", "2"]
    status, out, err = finished(
        start(site, [*asked, "--psi", "8", "--no-dask-report", "--run-dir", str(tmp_path / "run")])
    )
    assert status == 0, err
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["data"]["task"] == "numbers"
    assert 0 < found["learners"]["by-counts"]["rmse"] < 0.5
    assert "rmse" in out


def test_without_the_package_it_is_not_known(tmp_path: Path) -> None:
    status, _, err = finished(start(tmp_path, ["--partitioner", "simhash"]))
    assert (status, len(err.splitlines())) == (2, 1)
    assert "'simhash'" in err


def faulty(tmp_path: Path, name: str, text: str) -> Path:
    """A package of one module."""
    (tmp_path / f"{name}.py").write_text(text)
    return installed(tmp_path, name, {"first": f"{name}:METHOD"})


def installed(tmp_path: Path, name: str, points: dict[str, str]) -> Path:
    """A package with these entry points, as pip would have installed it."""
    about = tmp_path / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {place}" for point, place in points.items()]
    (about / "entry_points.txt").write_text("\n".join(["[ikmap.methods]", *lines]) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from ikmap.methods import LEARNERS\nMETHOD = LEARNERS['ogd']",
            "method 'ogd' has a name that ikmap has taken",
        ),
        ("import nothing_of_that_name", "method 'first' cannot be imported (ModuleNotFoundError: No module named"),
        (
            "from ikmap.tasks import Classification\nclass METHOD(Classification):\n    name = 'other'",
            "its task 'binary' has a name that ikmap has taken",
        ),
        (
            "from typing import Annotated\nfrom annotated_types import Ge\n"
            "from ikmap.methods import LEARNERS, Doc, LearnerAbout\n"
            "class METHOD(LEARNERS['ogd']):\n    about = LearnerAbout(name='first', title='a learner')\n"
            "    columns: Annotated[int, Ge(1), Doc('a number')] = 3",
            "its method 'first' has an option 'columns', a name that the commands use themselves",
        ),
        (
            "from typing import Annotated\nfrom ikmap.methods import LEARNERS, Doc, LearnerAbout\n"
            "class METHOD(LEARNERS['ogd']):\n    about = LearnerAbout(name='first', title='a learner')\n"
            "    steps: Annotated[list, Doc('numbers')] = 3",
            "method 'first' cannot be imported (TypeError: field 'steps': found [<class 'list'>], expected bool, int",
        ),
        ("METHOD = 3", "found int in its entry point, expected a class of Map, Learner or KernelMethod"),
        (
            "from ikmap.methods import LEARNERS\nMETHOD = LEARNERS['ogd']()",
            "in its entry point, expected a class of Map, Learner or KernelMethod",
        ),
        (
            "from ikmap.methods import Map, MapAbout\nclass METHOD(Map):\n"
            "    about = MapAbout(name='first', title='a map')\n    def n_cells(self): return 1",
            "its method METHOD lacks fit",
        ),
        ("def METHOD(", "cannot be imported (SyntaxError"),
        (
            "from ikmap.tasks import TaskKind\nclass METHOD(TaskKind):\n    name = 'first'\n"
            "    def read(self, labels, n): ...\n    def find(self, parts, request): ...\n"
            "    def from_json(self, values): ...",
            "its task METHOD lacks presenter",
        ),
        (
            "from typing import Annotated\nfrom annotated_types import Gt\n"
            "from ikmap.methods import LEARNERS, Doc, LearnerAbout, Searched\n"
            "class METHOD(LEARNERS['ogd']):\n    about = LearnerAbout(name='first', title='a learner')\n"
            "    pace: Annotated[float, Gt(0), Doc('a number'), Searched()] = 3.0",
            "its learner 'first' has the option 'pace' marked Searched",
        ),
    ],
)
def test_a_faulty_package_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    status, _, err = finished(start(faulty(tmp_path, "strange", text), ["--learner", "first"]))
    assert (status, len(err.splitlines())) == (2, 1)
    assert "package strange: " in err
    assert said in err
    assert "pip" in err


def test_faulty_packages_stop_nobody_else(tmp_path: Path) -> None:
    for name, text in {"missing": "import nothing_of_that_name", "broken": "def METHOD(", "odd": "METHOD = 3"}.items():
        faulty(tmp_path, name, text)
    status, text, err = finished(start(tmp_path, ["--help-all"]))
    assert (status, err) == (0, "")
    assert "--partitioner" in text


RAISES = """
from dataclasses import replace
from ikmap.methods import LEARNERS

class Lost:
    n_seen = n_support = 0
    def partial_fit(self, rows, y): raise KeyError('lost')

class METHOD(LEARNERS["ogd"]):
    about = replace(LEARNERS["ogd"].about, name="first", title="a learner")
    def start(self, sample, n_threads=1): return Lost()
"""


def test_a_package_that_fails_at_work_is_named(tmp_path: Path) -> None:
    site = faulty(tmp_path, "strange", RAISES)
    words = ["--learner", "first", "--psi", "4", "--t", "3", "--workers", "1", "--quiet"]
    status, _, err = finished(start(site, [*words, "--run-dir", str(tmp_path / "run")]))
    assert status == 2
    said = "error: package strange: KeyError: 'lost' (strange.py, line 7, in partial_fit); mend it, or pip uninstall "
    assert err.splitlines()[-1].startswith(f"{said}strange")


class Misshapen(OGD):
    """A learner whose model is one of another map."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="misshapen", title="a learner")

    def start(self, sample: Sample, n_threads: int = 1) -> Any:
        state: Any = super().start(sample, n_threads)
        state.model = lambda classes, params: LinearModel(  # noqa: ARG005
            np.zeros((7, 1)), np.zeros(1), 1.0, "misshapen", classes, {}
        )
        return state


def test_a_package_whose_model_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "misshapen", "strange")
    said = r"^package strange: the model of its learner 'misshapen' fails on rows: ValueError: rows have"
    with registered(Misshapen):
        ctx, fitted = mapped(tmp_path, 100, params_for(learners=("misshapen",), psi=4, t=3), psi=4)
        result = train(ctx, "misshapen", fitted)
        with pytest.raises(InputError, match=said):
            evaluate(ctx, "misshapen", fitted, result["content_hash"])


@pytest.mark.parametrize("codes", [[[0, 4]], [[-2, 0]], [[0.0, 1.0]], [[0, 1, 2]]])
def test_cells_that_are_not_there_are_refused(codes: list[list[float]]) -> None:
    with pytest.raises(InputError, match=r"^package strange: its map gives .* expected .*; pip install --upgrade"):
        check_cells(np.array(codes), np.array([0, 4, 8]), "strange")
    check_cells(np.array([[3, -1]]), np.array([0, 4, 8]), "strange")


class Other(OGD):
    about: ClassVar[LearnerAbout] = LearnerAbout(name="other", title="reads b as bits")
    b: Annotated[int, Ge(1), Le(24), Doc("bits")] = 3


def test_an_option_that_two_methods_read_differently_asks_for_the_scoped_form() -> None:
    names = ("anne", "gcws", "other")
    with registered(Other):
        with pytest.raises(InputError, match=r"^--b 8: found gcws and other, .*; give --gcws\.b and --other\.b$"):
            shared_out(names, {"b": 8})
        given = shared_out(names, {}, {"gcws": {"b": 8}, "other": {"b": 8}})
        alone = shared_out(("anne", "other"), {"b": 8})
    assert (given["gcws"]["b"], given["other"]["b"]) == (8, 8)
    assert alone["other"] == {"b": 8}
