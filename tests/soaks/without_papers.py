"""``python -m tests.soaks.without_papers``: the product without its papers, as a wheel in an environment of its own.

The tracked files without ``ikmap_papers/`` and ``tests/ikmap_papers/`` are copied to a temporary folder. A wheel is
built there and installed into a new environment, which finds the pinned packages of this one (``--index``: installs
what the wheel asks for, which needs a package index). Then the commands and the Python of README.md run with the wheel,
in a folder without any source of ours. ``flows.reproduce`` has to say in one line what is missing, and so has whatever
asks for a learner of a paper; models of such learners still predict. ``--tests`` runs the tests of the copy in that
environment too; what follows ``--`` goes to pytest. Commands on known data sets need IKMAP_DATA_DIR and are left out
without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ikmap.methods.registry import WITHOUT_PAPERS
from tests import ROOT
from tests.project.pages import text_of, tracked

LEFT_OUT = ("ikmap_papers/", "tests/ikmap_papers/")
README = ROOT / "README.md"
STREAMED = "cat rows.csv | "
LONGEST = 1800.0
"""Seconds that a command may take."""


class Failure(Exception):
    """A step that did not do what it should have done."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def copied(folder: Path) -> None:
    """Copy the tracked files without those of the papers, and let git track them there, as in a checkout."""
    names = [name for name in sorted(tracked()) if not name.startswith(LEFT_OUT)]
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    say(f"copied {len(names)} of {len(tracked())} files; left out: {', '.join(LEFT_OUT)}")


def built(folder: Path) -> Path:
    """Build the wheel of a copy with this environment's setuptools, and return it."""
    code = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    (folder / "dist").mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"the wheel could not be built: {done.stderr[-2000:]}")
    wheel = folder / "dist" / done.stdout.splitlines()[-1]
    for left in ("build", "ikmap.egg-info"):
        shutil.rmtree(folder / left, ignore_errors=True)
    say(f"built {wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB")
    return wheel


def installed(wheel: Path, folder: Path, *, index: bool) -> Path:
    """Install a wheel into a new environment and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    wanted = [f"{wheel}[pipeline]"] if index else ["--no-deps", "--no-index", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True, env=environment())
    if not index:
        # A path in a .pth file adds the folder alone, without the editable install that may be there.
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "pinned.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import ikmap, pipeline, flows, importlib.util as u; print(ikmap.__file__, u.find_spec('ikmap_papers'))"
    where = subprocess.run(
        [python, "-c", code], cwd=folder, env=environment(), check=True, capture_output=True, text=True
    ).stdout.split()
    if not where[0].startswith(str(folder)) or where[1] != "None":
        raise Failure(f"found ikmap in {where[0]}, and ikmap_papers as {where[1]}")
    say(f"installed into a new environment {'from the index' if index else 'that finds the packages of this one'}")
    return python


def environment() -> dict[str, str]:
    """Return the environment of the commands: nothing in it leads to this checkout or to a Prefect server."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV") and not name.startswith("PREFECT_")
    }


def run(python: Path, words: Sequence[str], folder: Path, given: bytes = b"", status: int = 0) -> str:
    """Run Python with some words, which has to end with a status, and return what it said on stderr."""
    shown = " ".join(word if "\n" not in word else "..." for word in words)
    began = time.perf_counter()
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment(), input=given, capture_output=True, timeout=LONGEST
    )
    said = done.stderr.decode()
    if done.returncode != status:
        raise Failure(f"python {shown}: ended with {done.returncode}, expected {status}:\n{said[-3000:]}")
    say(f"  {time.perf_counter() - began:6.1f} s  python {shown}{f'  (status {status})' if status else ''}")
    return said


def commands(text: str) -> list[str]:
    """Return the commands of README that one machine can run: those of ``flows``, without what only a cluster has."""
    lines = [line.strip().partition("  #")[0].strip() for line in text.splitlines() if line.startswith("    ")]
    wanted = [line for line in lines if re.match(rf"(?:{re.escape(STREAMED)})?python -m flows\.", line)]
    wanted += [f"python -m {words}" for words in re.findall(r"^\|.*\| `(flows\.[^`]+)` \|$", text, re.MULTILINE)]
    return [line for line in wanted if "--cluster" not in line]


def make_files(folder: Path) -> None:
    """Write the files that README's commands name."""
    rng = np.random.default_rng(0)

    def table(n: int, label: str) -> str:
        X = rng.gamma(2.0, size=(n, 3))
        y = (X[:, 0] + X[:, 1] > 4).astype(int)
        rows = [
            f"{a:.3f},{b:.3f},{c:.3f},note {i % 7},2024-{1 + i // 28 % 12:02}-{1 + i % 28:02},{label_of}"
            for i, ((a, b, c), label_of) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
        ]
        return "\n".join([f"a,b,c,notes,date,{label}", *rows]) + "\n"

    for name, n, label in (
        ("train.csv", 1500, "clicked"), ("new.csv", 300, "clicked"), ("t.csv", 1200, "y"), ("s.csv", 10_500, "y"),
        ("rows.csv", 10_500, "y"), ("sales/1.csv", 600, "bought"), ("sales/2.csv", 600, "bought"),
    ):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(table(n, label))


def one_line(said: str, what: str) -> None:
    """Check that a command said in one line that the papers are missing."""
    lines = said.splitlines()
    if len(lines) != 1 or WITHOUT_PAPERS not in lines[0]:
        raise Failure(f"{what}: expected one line with {WITHOUT_PAPERS!r}, got:\n{said}")
    say(f"           {lines[0]}")


def readme(python: Path, folder: Path) -> None:
    """Run the commands of README, and its Python."""
    make_files(folder)
    text = text_of(README)
    run(python, ["-m", "flows.batch", "--run-dir", "runs/digits"], folder)
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        run(python, ["-c", code], folder)
    for command in commands(text):
        words = command.removeprefix(STREAMED).split()[1:]
        if "--dataset" in words and not os.environ.get("IKMAP_DATA_DIR"):
            say(f"  left out: {command} (IKMAP_DATA_DIR is not set)")
        elif words[1] == "flows.reproduce":
            one_line(run(python, words, folder, status=2), command)
        else:
            given = (folder / "rows.csv").read_bytes() if command.startswith(STREAMED) else b""
            run(python, words, folder, given)


def papers(python: Path, folder: Path) -> None:
    """Check that a paper and a learner of a paper are refused in one line, and that a model of the latter predicts."""
    for words in (["--help"], ["--table", "5"], ["--paper", "gmm", "--table", "1"]):
        one_line(run(python, ["-m", "flows.reproduce", *words], folder, status=2), "flows.reproduce")
    wanted = ["--input", "t.csv", "--label", "y", "--drop", "notes,date", "--quiet", "--learner", "adaraker"]
    one_line(run(python, ["-m", "flows.batch", *wanted], folder, status=2), "a learner of a paper")
    score = ["-m", "flows.score", "--model", "of-a-paper", "--input", "t.csv", "--quiet", "--output"]
    for words in (["-m", "flows.batch", *wanted, "--run-dir", "of-a-paper"], [*score, "with.parquet"]):
        told = {**environment(), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, *words], cwd=folder, env=told, capture_output=True)
        if done.returncode:
            raise Failure(f"with the papers: {done.stderr.decode()[-2000:]}")
    again = ["-m", "flows.batch", "--config", "of-a-paper/run.toml"]
    one_line(run(python, again, folder, status=2), "options with a learner of a paper")
    run(python, [*score, "without.parquet"], folder)
    if (folder / "with.parquet").read_bytes() != (folder / "without.parquet").read_bytes():
        raise Failure("a model of a learner of a paper predicts something else where there are no papers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all of it and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soaks.without_papers", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--index", action="store_true", help="install the dependencies from a package index")
    parser.add_argument("--tests", action="store_true", help="run the product's tests in the copy too")
    parser.add_argument("--no-readme", action="store_true", help="leave out README's commands, which take minutes")
    parser.add_argument("pytest", nargs="*", help="after --: options and files of pytest, with --tests")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ikmap-without-papers-") as temporary:
        place = Path(temporary)
        copy, work = place / "copy", place / "work"
        copy.mkdir()
        work.mkdir()
        try:
            copied(copy)
            python = installed(built(copy), place / "venv", index=options.index)
            make_files(work)
            papers(python, work)
            if not options.no_readme:
                readme(python, work)
            if options.tests:
                say(f"pytest {' '.join(options.pytest)}")
                words = [str(python), "-m", "pytest", "-q", *options.pytest]
                status = subprocess.run(words, cwd=copy, env={**environment(), "PYTHONPATH": str(copy)}).returncode
                if status:
                    raise Failure(f"the product's tests without the papers: pytest ended with {status}")
        except Failure as failure:
            say(f"FAILED: {failure}")
            return 1
    say("the product works without its papers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
