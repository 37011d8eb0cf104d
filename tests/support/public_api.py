"""Writes the public names of the product, with their signatures, into ``public_api.txt``.

    python -m tests.support.public_api           says what differs from the file
    python -m tests.support.public_api --write   writes the file anew

A package that uses ikmap depends on these names. ``tests/project/test_public_api.py`` fails when one of them changes,
so that each change of the public API is a change of the file, which a review sees.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
MODULES = ("ikmap", "ikmap.methods", "ikmap.tasks", "ikmap.estimators")
"""Modules whose ``__all__`` is public."""
PROTOCOLS = {
    "ikmap.load": ("pipeline.runs.trained:load_run",),
    "ikmap.formats": ("pipeline.sources.formats:Format", "pipeline.sources.formats.base:DataFile"),
    "ikmap.papers": ("pipeline.reproduce.paper:Paper", "pipeline.reproduce.form:Form"),
}
"""What the objects are that packages register, by group of entry points. Those of ``ikmap.methods`` are above."""
OURS = ("ikmap", "pipeline")
"""Packages whose classes are described; bases of other packages are only named."""


def public_api() -> str:
    """Return the text of the file: a paragraph a name, with one line for each of its public members."""
    described: dict[str, object] = {}
    for module_name in MODULES:
        module = import_module(module_name)
        described |= {f"{module_name}.{name}": getattr(module, name) for name in module.__all__}
    for group, objects in PROTOCOLS.items():
        for name in objects:
            module_name, _, attribute = name.partition(":")
            described[f"{group}: {name}"] = getattr(import_module(module_name), attribute)
    classes = {value for value in described.values() if isinstance(value, type)}
    seen: dict[int, str] = {}
    paragraphs = []
    for name, value in described.items():
        same = seen.setdefault(id(value), name) if callable(value) else name
        lines = [f"{name} = {same}"] if same != name else description(name, value, classes)
        paragraphs.append("\n    ".join(lines))
    return "\n".join(paragraphs) + "\n"


def description(name: str, value: object, classes: Iterable[type]) -> list[str]:
    """Return the lines about a public name: of a class, its bases and then its members.

    Members that a class has from one of `classes` stand there.
    """
    if isinstance(value, type):
        bases = [base for base in value.__mro__[1:] if base in classes or base in value.__bases__]
        bases = [base for base in bases if base is not object]
        return [f"class {name}({', '.join(base.__name__ for base in bases)})", *members(value, set(classes))]
    if inspect.isroutine(value):
        return [f"def {name}{signature(value)}"]
    return [f"{name}: {type(value).__name__}"]


def members(kind: type, classes: set[type]) -> Iterator[str]:
    """Yield a line for each public member of a class that no other class of `classes` describes."""
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in OURS]
    bases = [base for base in bases if base is kind or base not in classes]
    names: dict[str, type] = {}
    for base in bases:
        for name in [*inspect.get_annotations(base), *vars(base)]:
            if not name.startswith("_") or name in ("__init__", "__call__"):
                names.setdefault(name, base)
    for name, base in sorted(names.items()):
        value = vars(base).get(name)
        annotation = inspect.get_annotations(base).get(name)
        if isinstance(value, classmethod | staticmethod):
            yield f"{type(value).__name__} {name}{signature(value.__func__)}"
        elif inspect.isfunction(value):
            yield f"{name}{signature(value)}"
        elif isinstance(value, property) or type(value).__name__ == "cached_property":
            yield f"{name}: property"
        elif annotation is not None:
            yield f"{name}: {annotation}" + (" = ..." if name in vars(base) else "")
        elif not type(value).__module__.startswith("sklearn"):  # what scikit-learn adds to estimators
            yield f"{name}: {type(value).__name__}"


def signature(function: object) -> str:
    """Return the parameters and the type of a function; defaults that are no plain values as "..."."""
    if not callable(function):
        return ""
    shape = inspect.signature(function)
    parameters = [
        parameter
        if parameter.default is parameter.empty or isinstance(parameter.default, str | int | float | bool | None)
        else parameter.replace(default=...)
        for parameter in shape.parameters.values()
    ]
    return str(shape.replace(parameters=parameters)).replace("Ellipsis", "...")


def difference() -> str:
    """Return how the public API differs from the file, as a diff; empty if it does not."""
    lines = difflib.unified_diff(
        FILE.read_text(encoding="utf-8").splitlines(), public_api().splitlines(), "public_api.txt", "now", "", "", 1, ""
    )
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Say what differs from the file, or write it anew."""
    if words == ["--write"]:
        FILE.write_text(public_api(), encoding="utf-8")
        return 0
    print(difference() or "the public API is that of the file")
    return bool(difference())


if __name__ == "__main__":
    os.environ["IKMAP_PACKAGES"] = "off"
    sys.exit(main(sys.argv[1:]))
