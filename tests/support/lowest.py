"""Prints the lowest versions that ``pyproject.toml`` allows, as requirements for pip.

    python -m tests.support.lowest

``make lowest`` runs the tests with them. What has no lowest version there is taken as it is pinned in
``requirements.txt``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

GROUPS = ("pipeline", "test")


def lowest(texts: Sequence[str], pins: Mapping[str, str]) -> Iterator[str]:
    """Yield a requirement for exactly one version for each of `texts`: the lowest in its range, or the pinned one."""
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    for requirement in map(Requirement, texts):
        name = canonicalize_name(requirement.name)
        bounds = [item.version for item in requirement.specifier if item.operator in (">=", "==", "~=")]
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        yield f"{name}{extras}=={bounds[0] if bounds else pinned[name]}"


def main() -> None:
    """Print the lowest version of everything that the product and its tests ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    texts += [text for group in GROUPS for text in project["project"]["optional-dependencies"][group]]
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    print(*lowest(texts, pins), sep="\n")


if __name__ == "__main__":
    main()
