"""The product's papers beside a stranger's: whose option is whose, and what a file of options has."""

from __future__ import annotations

from pathlib import Path

import pytest

import ikmap_papers
from flows.options.reproduce import ReproduceOptions
from pipeline.errors import InputError
from pipeline.reproduce.registry import DEFAULT, PAPERS
from tests.support.strange_paper import finished, install, start


def test_every_folder_is_a_paper() -> None:
    folders = {path.parent.name for path in Path(ikmap_papers.__file__).parent.glob("*/paper.py")}
    assert sorted(folders) == list(ikmap_papers.PAPERS)
    assert [name.replace("-", "_") for name in PAPERS] == list(ikmap_papers.PAPERS)
    assert DEFAULT == "isolation-kernel"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stranger's paper as pip would have installed it."""
    folder: Path = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--paper throwaway --table 1 --depth none",
            "--depth: --paper throwaway does not use it; give --paper isolation-kernel, or leave --depth out",
        ),
        (
            "--table 5 --throwaway.scale_of_eta tenfold",
            "--throwaway.scale_of_eta: --paper isolation-kernel does not use it; give --paper throwaway",
        ),
        ("--table 1", "--table: found '1', expected some of 3, 4, 5, 6, 7, 8 (--paper isolation-kernel)"),
    ],
)
def test_what_another_paper_has_is_refused_in_a_line(site: Path, words: str, said: str) -> None:
    status, _, err = finished(start(site, *words.split(), "--quiet"))
    assert (status, len(err.splitlines())) == (2, 1)
    assert said in err


def test_papers_and_their_options_in_a_file() -> None:
    with pytest.raises(InputError, match=r"run\.toml: paper: found 'nothing'"):
        ReproduceOptions.from_toml('paper = "nothing"\ntable = ["5"]\n')
    options = ReproduceOptions.from_toml('table = ["5"]\n[isolation-kernel]\ndepth = "log2"\n')
    assert options.readings["depth"] == "log2"
    assert ReproduceOptions.from_toml(options.to_toml()) == options
