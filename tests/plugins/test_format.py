"""A format of files that another package offers is read as ours are; a faulty package is named in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.narrow import present

ROOT = Path(__file__).parents[2]
STARTED = """
import os, sys
from pathlib import Path
from tests.support.opening import opened
from tests.pipeline.sources.test_sources_tables import rows
from pipeline.errors import InputError
from pipeline.package_faults import fault_of_package
from pipeline.sources import Sizes

def read(paths):
    for path in paths:
        try:
            source = opened(path, label="y", sizes=Sizes(fragment=200, block=100))
            print(source.format, len(source.fragments()), rows(source))
        except InputError as error:
            print(f"InputError: {error}")
        except Exception as error:
            print(fault_of_package(error))

for line in sys.stdin:
    folder, *paths = line.rstrip("\\n").split("\\t")
    if (child := os.fork()) == 0:
        sys.path.insert(0, folder)
        os.chdir(folder)
        with open("read.txt", "w") as sys.stdout:
            read(paths)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Has a process that knows the packages of one folder print a line for each file. What all of these processes import
is imported once, before they part: that takes longer than all else."""


@pytest.fixture(scope="module")
def started() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what reads files, and does not know any package yet."""
    command = [sys.executable, "-c", STARTED]
    with subprocess.Popen(
        command, env=environment(), cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        present(process.stdin).close()


def read(started: subprocess.Popen[str], folder: Path, *paths: str) -> list[str]:
    """Read files with the packages of a folder installed; return what is said of each."""
    given, said = present(started.stdin), present(started.stdout)
    given.write("\t".join([str(folder), *paths]) + "\n")
    given.flush()
    assert said.readline() == "0\n"
    return (folder / "read.txt").read_text().splitlines()


def install(folder: Path, module: str, text: str | None = None) -> None:
    """Put a module into a folder as pip would install it, with its entry point."""
    if text is None:
        shutil.copy(ROOT / "tests" / "plugins" / f"{module}.py", folder)
    else:
        (folder / f"{module}.py").write_text(text)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    name = module.replace("_", "-")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[ikmap.formats]\nfixed = {module}:FORMAT\n")


def environment(*folders: Path) -> dict[str, str]:
    """Variables of a process for which these folders are those of installed packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "IKMAP_PACKAGES"))}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, [*folders, ROOT]))}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command: list[str] = [sys.executable, *words]
    return subprocess.run(
        command, env=environment(folder), cwd=folder, text=True, capture_output=True, timeout=300, check=False
    )


def write_rows(path: Path, n: int) -> None:
    lines = [f"{'a':>8}{'b':>8}{'y':>8}"] + [f"{k:8.2f}{'' if k % 7 == 3 else k * k:>8}{k % 2:8}" for k in range(n)]
    path.write_text("\n".join([*lines, ""]))


@pytest.mark.slow
def test_its_files_are_read_in_ranges(started: subprocess.Popen[str], tmp_path: Path) -> None:
    install(tmp_path, "fixed_width")
    write_rows(tmp_path / "t.fixed", 40)
    (tmp_path / "bad.fixed").write_text("       a       y\n     1.5       1\n     1.x       0\n")
    taken, refused = read(started, tmp_path, str(tmp_path / "t.fixed"), str(tmp_path / "bad.fixed"))
    name, fragments, found = taken.split(" ", 2)
    meant = [[float(k), None if k % 7 == 3 else float(k * k)] for k in range(40)]
    assert (name, int(fragments) > 3) == ("fixed", True)
    assert found == repr((meant, [float(k % 2) for k in range(40)]))
    assert refused.startswith(f"InputError: {tmp_path}/bad.fixed: line 3, column 'a': found '1.x', expected a number; ")


@pytest.mark.slow
def test_a_run_takes_it(tmp_path: Path) -> None:
    install(tmp_path, "fixed_width")
    write_rows(tmp_path / "rows.data", 200)
    words = ["--format", "fixed", "--label", "y", "--t", "4", "--psi", "4", "--learner", "ogd", "--workers", "1"]
    done = run(tmp_path, "-m", "flows.batch", "--input", "rows.data", *words, "--no-dask-report", "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.slow
def test_help_imports_no_package(tmp_path: Path) -> None:
    install(tmp_path, "broken_format", "raise SystemExit('imported')")
    done = run(tmp_path, "-m", "flows.batch", "--format", "fixe")
    assert (done.returncode, "'fixed'" in done.stderr) == (2, True)
    assert run(tmp_path, "-m", "flows.batch", "--help").returncode == 0


FAULTS = {
    "import nowhere_at_all": "package broken-format: its format 'fixed' cannot be imported (ModuleNotFoundError: No",
    "FORMAT = 1": "package broken-format: found int in its entry point 'fixed', expected a Format of pipeline.sources.",
    "from pipeline.sources.formats import Format\nFORMAT = Format('other', 'a:b', 'c')": (
        "package broken-format: its format 'other' has the entry point 'fixed', expected one of the same name; pip "
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", FAULTS)
def test_a_faulty_package_is_named_where_it_is_wanted(
    text: str, started: subprocess.Popen[str], tmp_path: Path
) -> None:
    install(tmp_path, "broken_format", text)
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    (tmp_path / "t.rds").write_text("x")
    taken, refused = read(started, tmp_path, "t.csv", "t.rds")
    assert taken == "csv 1 ([[1.0], [2.0]], [0.0, 1.0])"
    assert FAULTS[text] in refused


@pytest.mark.slow
def test_a_command_names_a_faulty_package_in_a_line(tmp_path: Path) -> None:
    text, fault = next(iter(FAULTS.items()))
    install(tmp_path, "broken_format", text)
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    done = run(tmp_path, "-m", "flows.batch", "--input", "t.csv", "--format", "fixed", "--run-dir", "run", "--quiet")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert fault in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opener", "said"),
    [
        ("broken_format:nothing", "InputError: package broken-format: its format 'fixed' cannot be imported (Attribu"),
        ("broken_format:open_it", "package broken-format: ValueError: of its own (broken_format.py, line 4, in open_i"),
    ],
)
def test_errors_of_its_code_name_the_package(
    opener: str, said: str, started: subprocess.Popen[str], tmp_path: Path
) -> None:
    text = f"from pipeline.sources.formats import Format\nFORMAT = Format('fixed', {opener!r}, r'\\.fixed')\n"
    install(tmp_path, "broken_format", text + "def open_it(file, request):\n    raise ValueError('of its own')\n")
    (tmp_path / "t.fixed").write_text("x")
    (found,) = read(started, tmp_path, "t.fixed")
    assert found.startswith(said)
