"""Tell errors of packages that offer methods, tasks or metrics from our own."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path

from ikmap.methods.registry import MODULES

_CLASS = re.compile(r"^(?:type object )?'?(\w+)(?:'|\.\w+\(\))")
"""The class that an AttributeError or a TypeError begins with."""


def fault_of_package(error: BaseException) -> str | None:
    """Return the line that names the package whose code an error comes from; None: it comes from no package.

    An error comes from a package if a call of its code led to it, or if a class of its own lacks a member.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top in MODULES:
            place = f"{Path(frame.f_code.co_filename).name}, line {line}, in {frame.f_code.co_name}"
            return _fault(MODULES[top], f"{type(error).__name__}: {error} ({place})")
    if isinstance(error, AttributeError | TypeError) and (named := _CLASS.match(str(error))):
        for name, module in list(sys.modules.items()):
            # Modules of a package also have the names that they import, which are not of the package.
            if name.partition(".")[0] in MODULES and getattr(vars(module).get(named[1]), "__module__", None) == name:
                return _fault(MODULES[name.partition(".")[0]], f"{type(error).__name__}: {error}")
    return None


def _fault(package: str, found: str) -> str:
    return f"package {package}: {found}; mend it, or pip uninstall {package} (--debug shows the traceback)"
