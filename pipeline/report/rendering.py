"""Templates of pages: the looks of a page are in ``templates/``, its contents come from Python."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.monitoring.plain_text import printable


class Cell(NamedTuple):
    """A cell of a table that is more than text."""

    text: str
    link: str | None = None
    strong: bool = False


class Templates:
    """The templates of packages; each looks in its own folder ``templates`` first, then in those of the next ones.

    All values given to a template are shown as text: they are escaped, and control characters are written out. Only the
    output of another template (`Markup`) is taken as it is. A name that the template was not given is an error.

    Parameters
    ----------
    *packages : str
        Names of packages that have a folder ``templates``.
    """

    def __init__(self, *packages: str) -> None:
        self._environment = Environment(
            loader=ChoiceLoader([PackageLoader(package) for package in packages]),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,  # which would look at the files again for each page
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def render(self, name: str, /, **values: object) -> Markup:
        """Fill in the template `name` with values."""
        return Markup(self._environment.get_template(name).render(values))


def _shown(value: object) -> object:
    return value if isinstance(value, Markup) else printable(str(value), keep="\n\t")


def page_parts() -> dict[str, str]:
    """Return the parts of every page: the style, the script, and the digest that permits the script."""
    here = files("pipeline.report") / "templates"
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": Markup(style), "script": Markup(script), "script_digest": digest}


render = Templates("pipeline.report").render
