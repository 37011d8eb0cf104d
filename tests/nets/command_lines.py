"""What some hundred command lines come to: the parameters of the run that they ask for, or the line that refuses them.

The lines are in ``lines.txt``. Nothing is run and no data is read: options are parsed and become the parameters that
identify a run in its manifest, whose layout has to stay.

:func:`outcome` goes through the public surface only: ``Options.parse``, ``batch_params``, ``online_identity`` and
``Params.as_json``. :func:`searched` asks :class:`~pipeline.params.Params` what there is to choose; it is the only part
that is to be adapted where these methods get other names.

    python -m tests.nets.command_lines            prints what differs from the record
    python -m tests.nets.command_lines --record   writes the record anew
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from flows.runs.batch import batch_params
from flows.runs.online import check_source, online_identity
from flows.runs.reproduce import check_systems
from ikmap.methods import LEARNERS
from pipeline.errors import InputError
from pipeline.params import Params
from tests import ROOT
from tests.nets.records import as_json, command

FILE = Path(__file__).with_suffix(".json")
LINES = Path(__file__).with_name("lines.txt")
PLUGIN = "plugin"
"""The first word of lines for flows.batch with the example plug-in installed."""
N_ROWS = 1000

CONFIGS = {
    "plain.toml": 'dataset = "a9a"\ntest-size = 0.3\nt = 5\nquiet = true\nlearner = ["svm", "logistic"]\nC = 3\n',
    "scoped.toml": 'learner = "svm,logistic"\npartitioner = "anne"\n[svm]\nC = 5\nclass-weight = "balanced"\n'
    "[anne]\npsi = 8\n",
    "list.toml": 'learner = ["svm"]\npartitioner = ["iforest", " anne"]\npsi = "auto"\n',
    "dashes.toml": 'learner = "norma"\nclip-rho = true\nclass_weight = "none"\ntask = "novelty"\n',
    "unknown.toml": "lerner = 'svm'\n",
    "unknown_scope.toml": "learner = 'svm'\n[svn]\nC = 5\n",
    "unknown_in_scope.toml": "learner = 'svm'\n[svm]\nc = 5\n",
    "type.toml": "psi = '8'\n",
    "type_in_scope.toml": "learner = 'svm'\n[svm]\nC = true\n",
    "range.toml": "C = 0\n",
    "flag.toml": "learner = 'ogd'\naverage = 1\n",
    "unchosen.toml": "learner = 'svm'\n[logistic]\nC = 5\n",
    "twice.toml": "class-weight = 'none'\nclass_weight = 'balanced'\n",
    "stream.toml": 'dataset = "a9a"\nlearner = ["ogd", "idk"]\npartitioner = "inne"\n[ogd]\neta = 0.25\n',
    "score.toml": 'model = "runs/x"\ninput = "new.csv"\nlearner = "svm"\n',
    "paper.toml": 'paper = "mondrian"\nfigure = ["5"]\n[mondrian]\nrepeats = 4\n',
    "plugin.toml": 'learner = "perceptron"\npartitioner = "simhash"\nmargin = 2\n[simhash]\nplanes = 4\n',
}


def lines() -> list[str]:
    """Return the command lines, without comments."""
    text = LINES.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def outcome(line: str) -> dict[str, Any]:
    """Return the exit status of a command line, and the line that it prints or what it would run, as JSON values."""
    program, *argv = shlex.split(line)
    try:
        resolved = RESOLVED[program](argv)
    except InputError as error:
        return {"status": 2, "message": str(error)}
    return dict(as_json({"status": 0, **resolved}))


def _batch(argv: Sequence[str]) -> dict[str, Any]:
    return _of_run(BatchOptions.parse(argv))


def _online(argv: Sequence[str]) -> dict[str, Any]:
    options = OnlineOptions.parse(argv)
    check_source(options)
    return {**_of_run(options), **online_identity(options)}


def _of_run(options: BatchOptions) -> dict[str, Any]:
    params = batch_params(options)
    # Where the learner follows from the task, the run is one of these once the labels have been read.
    alternatives = {"alternatives": [one.as_json() for one in params.alternatives()]} if params.undecided else {}
    return {
        "command": options.command(session=False),
        "params": params.as_json(),
        **alternatives,
        "searched": [searched(one) for one in params.alternatives()],
    }


def searched(params: Params) -> dict[str, Any]:
    """Return for each learner of a run what is given for it and what cross-validation is to choose."""
    return {
        name: {
            "searches": params.searches_for(name, N_ROWS),
            "kernel": params.kernel(name),
            "compared_as": params.compared_as(name),
            **({"width": params.map_value(name, N_ROWS)} if LEARNERS[name].about.on == "cells" else {}),
        }
        for name in params.learners
    }


def _score(argv: Sequence[str]) -> dict[str, Any]:
    options = ScoreOptions.parse(argv)
    return {"command": options.command(session=False), "options": options.to_dict()}


def _reproduce(argv: Sequence[str]) -> dict[str, Any]:
    options = ReproduceOptions.parse(argv)
    check_systems(options)
    experiments = [one.label for one in options.experiments]
    return {"command": options.command(session=False), "readings": dict(options.readings), "experiments": experiments}


RESOLVED = {"batch": _batch, "online": _online, "score": _score, "reproduce": _reproduce, PLUGIN: _batch}


@contextmanager
def folder_of_lines() -> Iterator[None]:
    """Be in a folder with the files that the lines name, and in an environment that says nothing of runs."""
    before = dict(os.environ)
    for name in ("IKMAP_CLUSTER", "IKMAP_WORKERS", "IKMAP_MEMORY_LIMIT", "IKMAP_RUN_DIR"):
        os.environ.pop(name, None)
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for name, text in CONFIGS.items():
                Path(name).write_text(text, encoding="utf-8")
            Path("arriving").mkdir()
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def outcomes() -> dict[str, Any]:
    """Return the outcome of every line, those of the plug-in from a process that has it."""
    with folder_of_lines():
        ours = {line: outcome(line) for line in lines() if not line.startswith(PLUGIN)}
    return {**ours, **outcomes_with_plugin()}


def outcomes_with_plugin() -> dict[str, Any]:
    """Return the outcomes of the lines for the example plug-in, from a process in which it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        source = ROOT / "examples" / "plugin"
        # An installed package is a folder that is found, and one beside it that names its entry points.
        site = Path(folder, "ikmap_simhash-1.dist-info")
        site.mkdir()
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: ikmap-simhash\nVersion: 1\n")
        (site / "entry_points.txt").write_text(_entry_points(source / "pyproject.toml"))
        environment = {
            **os.environ,
            "IKMAP_PACKAGES": "on",
            "PYTHONPATH": os.pathsep.join([folder, str(source), str(ROOT)]),
        }
        words = [sys.executable, "-m", "tests.nets.command_lines", "--of-plugin"]
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return dict(json.loads(done.stdout))


def _entry_points(project: Path) -> str:
    import tomllib

    groups = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups.items()
    )


def main() -> int:
    """Compare, record, or print the outcomes of the lines for the plug-in."""
    if sys.argv[1:] == ["--of-plugin"]:
        with folder_of_lines():
            found = {line: outcome(line) for line in lines() if line.startswith(PLUGIN)}
        print(json.dumps(found))
        return 0
    return command(FILE, outcomes)


if __name__ == "__main__":
    sys.exit(main())
