"""A stranger's paper as pip would have installed it, and the command that reproduces it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests import ROOT
from tests.support.runs import points

SETS = """
[dataset.clouds]
title = "Clouds"
task = "binary"
format = "csv"
train = "clouds.csv"
label = -1
header = false
"""


def install(folder: Path) -> None:
    """Put the paper of ``tests/plugins/paper`` and its data set into a folder, as pip would have installed it."""
    shutil.copytree(ROOT / "tests" / "plugins" / "paper", folder / "strange_paper")
    offer(folder, "strange_paper", "throwaway")
    X, y = points(240, seed=3)
    np.savetxt(folder / "clouds.csv", np.c_[X, y], delimiter=",", fmt="%.6f")
    (folder / "sets.toml").write_text(SETS)


def offer(folder: Path, module: str, name: str) -> None:
    """Write what pip writes about a package whose module offers a paper."""
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[ikmap.papers]\n{name} = {module}:PAPER\n")


WITHOUT_PAPERS = """
import sys
sys.modules["ikmap_papers"] = None  # as if it were not installed
from flows.cli import leave, run_command
from flows.reproduce import main
leave(run_command(main))
"""


def start(site: Path, *words: str, papers: bool = True, **how: Any) -> subprocess.Popen[str]:
    """Start ``flows.reproduce`` with the packages of a folder, and with the product's own papers or without."""
    command = ["-m", "flows.reproduce"] if papers else ["-c", WITHOUT_PAPERS]
    return subprocess.Popen(
        [sys.executable, *command, *words], env=_environment(site), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=site, **how,
    )  # fmt: skip


SEVERAL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
papers, *lines = sys.argv[1:]
if papers == "without":
    sys.modules["ikmap_papers"] = None  # as if it were not installed
from flows.cli import run_command
from flows.reproduce import main
found = []
for line in lines:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = run_command(main, line.split())
    found.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


def answers(site: Path, *lines: str, papers: bool = True) -> list[tuple[int, str, str]]:
    """Return exit status, stdout and stderr of ``flows.reproduce`` for each of some lines of words.

    One process is given all of them, for commands that refuse or explain, and run nothing.
    """
    asked = [sys.executable, "-c", SEVERAL, "with" if papers else "without", *lines]
    done = subprocess.run(
        asked, env=_environment(site), text=True, stdout=subprocess.PIPE, cwd=site, check=True, timeout=300
    )
    return [(status, out, err) for status, out, err in json.loads(done.stdout)]


def _environment(site: Path) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "IKMAP_PACKAGES"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT)])
    return environment


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of a command when it has ended."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def words_for(site: Path) -> list[str]:
    """Return the options that reproduce the table of the paper."""
    return [
        *("--paper", "throwaway", "--table", "1", "--data-dir", str(site), "--workers", "1"),
        *("--dataset-file", str(site / "sets.toml")),
    ]
