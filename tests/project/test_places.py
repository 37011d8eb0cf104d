"""The tests of a module stand where the module stands: ``tests/pipeline/x/test_y.py`` tests ``pipeline/x/y.py``.

A file may be about one subject of a module (``test_y_resumed.py``), or of a package (``test_x.py`` or
``test_x_resumed.py`` in the folder of ``x``). Tests of whole processes are in ``tests/system`` and
``tests/services``, those of methods that a package might offer in ``tests/plugins``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests import ROOT

PACKAGES = ("ikmap", "pipeline", "flows", "cluster", "benchmarks")
ELSEWHERE = {
    "pipeline/training/test_norma_refused.py": "what NORMA refuses, as soon as training knows the task",
    "pipeline/training/test_on_rows.py": "every learner of a run, whatever trains it",
    "pipeline/training/test_unconverged.py": "a message of every kind of training",
}
"""Files below ``tests/`` that are about no module beside them, and why they stand there."""


def subjects(folder: Path) -> Iterator[str]:
    """Yield the names of a folder and of the modules and packages in it, without what marks loops and inner ones."""
    if folder.is_dir():
        yield folder.name
        for path in folder.iterdir():
            name = path.name.removesuffix(".py").strip("_")
            yield from (name, name.removesuffix("_loops"))


def is_placed(test: PurePosixPath, root: Path) -> bool:
    """Return whether a file of tests, named from ``tests/``, is about what stands in the folder of that name."""
    subject = test.stem.removeprefix("test_")
    return any(subject == name or subject.startswith(f"{name}_") for name in subjects(root / test.parent) if name)


def test_tests_of_a_module_stand_where_it_stands() -> None:
    tests = [
        PurePosixPath(path.relative_to(ROOT / "tests").as_posix())
        for package in PACKAGES
        for path in (ROOT / "tests" / package).rglob("test_*.py")
    ]
    assert len(tests) > 100
    assert sorted(str(test) for test in tests if not is_placed(test, ROOT)) == sorted(ELSEWHERE)


@pytest.mark.parametrize(
    ("test", "placed"),
    [
        ("box/test_lid.py", True),
        ("box/test_lid_closed.py", True),
        ("box/test_hinge.py", True),
        ("box/test_box_in_rain.py", True),
        ("box/test_drawer.py", True),
        ("box/test_lids.py", False),
        ("box/test_handle.py", False),
        ("chest/test_lid.py", False),
    ],
)
def test_places_are_told_apart(test: str, placed: bool, tmp_path: Path) -> None:
    (tmp_path / "box" / "drawer").mkdir(parents=True)
    for name in ("__init__", "lid", "_hinge_loops"):
        (tmp_path / "box" / f"{name}.py").touch()
    assert is_placed(PurePosixPath(test), tmp_path) is placed
