"""Help of the commands, and the page of their options."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from flows.options import page as options_page
from flows.options.batch import BatchOptions
from flows.options.command_line import Options
from flows.options.common import CommonOptions
from flows.options.reproduce import ReproduceOptions
from pipeline.reproduce.registry import PAPERS
from tests import ROOT
from tests.support.papers import with_papers

COMMANDS = options_page.COMMANDS
WITH_HELP = [command for command in COMMANDS if command is not ReproduceOptions or PAPERS]
"""Without any paper, ``flows.reproduce`` has nothing to help with, and says so."""


def help_of(command: type[CommonOptions], flag: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        command.parse([flag])
    assert caught.value.code == 0
    return capsys.readouterr().out


def listed(text: str) -> list[str]:
    """The flags that a page of help lists, in order."""
    return re.findall(r"^  (?:-h, )?(--[\w-]+)", text, re.MULTILINE)


def own(command: type[Options]) -> list[str]:
    """Return the flags that stand for other options."""
    return ["--config", "--preset"] if command.PRESETS else ["--config"]


@pytest.mark.parametrize("command", WITH_HELP)
def test_all_help_is_grouped_and_complete(command: type[CommonOptions], capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(command, "--help-all", capsys)
    positions = [text.index(f"\n{group}:\n") for group in (*command.GROUPS, "Help")]
    assert positions == sorted(positions)
    flags = listed(text)
    assert len(flags) == len(set(flags))
    taken = {spec.flag for spec in command.specs().values() if spec.name not in command.REFUSED}
    assert set(flags) == {*taken, *own(command), "--help", "--help-all"}
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("command", WITH_HELP)
def test_help_shows_what_most_users_need_on_one_screen(
    command: type[CommonOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(command, "--help", capsys)
    assert help_of(command, "-h", capsys) == text
    common = [spec.flag for spec in command.specs().values() if spec.common]
    assert set(listed(text)) == {*common, "--config", "--help", "--help-all"}
    assert len(common) <= 20
    assert len(text.splitlines()) <= 55
    assert all(f"\n{group}:\n" in text for group in {spec.group for spec in command.specs().values() if spec.common})
    rest = len(command.specs()) - len(common) - len(command.REFUSED)
    assert f"show every option, {rest} more\n" in text


def test_what_help_leaves_out_can_be_given() -> None:
    hidden = [spec for spec in BatchOptions.specs().values() if not spec.common]
    assert len(hidden) > 20
    assert BatchOptions.parse(["--t", "7", "--tol", "0.5"]) == BatchOptions(t=7, tol=0.5)
    assert {"t", "tol"} < {spec.name for spec in hidden}


@pytest.mark.slow
def test_options_load_no_heavy_package() -> None:
    code = (
        "import sys; from flows.options.batch import BatchOptions; import flows.cli\n"
        "try: BatchOptions.parse(['--help'])\n"
        "except SystemExit: pass\n"
        "BatchOptions.parse(['--dataset', 'a9a']).command()\n"
        "heavy = {'dask', 'distributed', 'prefect', 'numba', 'numpy', 'zarr', 'pyarrow', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_help_reads_only_the_annotations_of_what_it_shows() -> None:
    code = (
        "from flows.options.batch import BatchOptions\n"
        "from ikmap.methods import fields_of, methods\n"
        "from ikmap.methods.registry import PACKAGES\n"
        "try: BatchOptions.parse(['--help'])\n"
        "except SystemExit: pass\n"
        "ours = [kind for name, kind in methods().items() if name not in PACKAGES]\n"
        "fields = [field for kind in ours for field in fields_of(kind).values()]\n"
        "print(len(fields), sorted({field.name for field in fields if '_parts' in vars(field)}))"
    )
    ours = {**os.environ, "IKMAP_PACKAGES": "off"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ours, capture_output=True, text=True, check=True)
    number, names = done.stdout.splitlines()[-1].split(" ", 1)
    assert int(number) > 100
    assert names == "['gamma', 'psi']"  # a field has a Laplacian() for its default, whose gamma is checked


@with_papers
def test_the_page_of_options_is_as_they_are_declared() -> None:
    found = options_page.PAGE.read_text()
    assert options_page.page(found) == found, "type: python -m flows.options.page"
    for command in COMMANDS:
        section = found.split(f"## `python -m {command.PROGRAM}`\n")[1].split("\n## ")[0]
        assert set(re.findall(r"`(--[\w-]+)[ `]", "\n".join(re.findall(r"^\| .*?`\** \|", section, re.MULTILINE)))) == {
            *own(command), *(spec.flag for spec in command.specs().values() if spec.name not in command.REFUSED)
        }  # fmt: skip


@with_papers
def test_a_change_of_the_page_is_noticed() -> None:
    found = options_page.PAGE.read_text()
    assert options_page.page(found.replace("| `0.5` | Step size", "| `0.6` | Step size")) == found
    assert options_page.page("Before.\n\n" + found) == "Before.\n\n" + found
