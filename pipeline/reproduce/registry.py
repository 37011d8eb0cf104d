"""All papers by name: those of ``ikmap_papers``, if it is installed, and those of packages that offer some."""

from __future__ import annotations

from importlib import import_module

from ikmap.methods.fields import fields_of
from ikmap.methods.registry import PAPERS as PACKAGE
from ikmap.methods.registry import WITHOUT_PAPERS, has_papers, offered
from ikmap.methods.reserved import reserved_among
from pipeline.reproduce.paper import Paper

GROUP = "ikmap.papers"
"""Entry points of packages with more papers; each names a :class:`~pipeline.reproduce.paper.Paper`."""

PAPERS: dict[str, Paper] = {}
FAULTS: list[str] = []
"""Reasons why a paper may be unknown here, each a line with advice on what to type."""


def register(paper: object, package: str = "") -> None:
    """Make a paper known.

    Parameters
    ----------
    paper : Paper
    package : str, optional
        Package that offers it; empty for a paper that comes with the product.

    Raises
    ------
    ValueError
        It is no paper, its name is taken, or one of its options has the name of an option of the commands.
    """
    if not isinstance(paper, Paper):
        raise ValueError(
            f"package {package}: found {type(paper).__name__} in its entry point, expected a Paper of "
            f"pipeline.reproduce.paper; pip uninstall {package}, or mend it"
        )
    if paper.name in PAPERS:
        raise ValueError(
            f"package {package}: its paper {paper.name!r} has a name that is taken; pip uninstall {package}, or give "
            "the paper another name there"
        )
    fields = fields_of(paper.Options)
    for field in fields.values() if package else ():
        _ = field.given_kind, field.doc  # of ours they are read once somebody asks for them
    if taken := reserved_among(fields):
        raise ValueError(
            f"package {package}: its paper {paper.name!r} has an option {taken[0]!r}, a name that the commands use "
            f"themselves; pip uninstall {package}, or give the option another name there"
        )
    PAPERS[paper.name] = paper


def _load() -> str:
    """Register all papers, those that come with the product first, and return the name of the default one."""
    default = ""
    if not has_papers():
        FAULTS.append(WITHOUT_PAPERS)
    else:
        ours = import_module(PACKAGE)
        default = ours.DEFAULT
        for folder in ours.PAPERS:
            register(import_module(f"{PACKAGE}.{folder}.paper").PAPER)
    for point in sorted(offered(GROUP), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist is not None else point.value.partition(":")[0]
        try:
            register(point.load(), package)
        except ValueError as error:
            FAULTS.append(str(error))
        except Exception as error:  # whatever a stranger's package does wrong
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            FAULTS.append(
                f"package {package}: its paper {point.name!r} cannot be imported ({reason}); pip install --upgrade "
                f"{package}, or pip uninstall {package}"
            )
    return default


DEFAULT = _load()
"""Name of the paper that is reproduced unless ``--paper`` names another; empty if the product has no papers here."""
