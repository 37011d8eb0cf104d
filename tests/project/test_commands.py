"""Commands, options and Python of the pages: each could be typed as it stands there; none of them is run."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import NAMES, page
from benchmarks import __main__ as benchmarks
from cluster.settings import SETTINGS
from flows.options.batch import BatchOptions
from flows.options.command_line import Options
from flows.options.online import OnlineOptions
from flows.options.option import Option
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from ikmap.methods.kinds import Flag
from ikmap.methods.registry import has_papers
from pipeline.errors import InputError
from tests import ROOT
from tests.project.pages import PAGES, blocks, spans, text_of, tracked
from tests.support.papers import with_papers, without_learners

FLOWS: dict[str, type[Options]] = {
    "flows.batch": BatchOptions,
    "flows.online": OnlineOptions,
    "flows.reproduce": ReproduceOptions,
    "flows.score": ScoreOptions,
}
PROGRAMS = ("python", "make", "prefect", "pip", "sbatch", *FLOWS)
OPTIONS_OF_OTHERS = {
    "--constraint": "sbatch",
    "--exclude-editable": "pip",
    "--mem": "sbatch",
    "--method.name": "stands for --svm.C and its like",
    "--no-requeue": "sbatch",
    "--scheduler-file": "dask scheduler",
    "--signal": "sbatch",
    "--tests": "python -m tests.soaks.without_papers",
    "--watch": "prefect",
}
"""Options that pages name by themselves and that no command of ours has."""
PLACEHOLDER = re.compile(r"[A-Z]|[A-Z_]{2,}|.*(?:\.\.\.|[|{]|[A-Z]{4}).*")
"""A word that stands for another: FILE, time:COLUMN, X|auto."""


# Commands


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a page: of its code, and of spans that begin with a program."""
    lines = [line for block in blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    for line in [*lines, *spans(text)]:
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:  # prose with an apostrophe, or Python
            continue
        for command in split(words):
            while command and re.fullmatch(r"[A-Z_]+=\S*", command[0]):
                command = command[1:]
            if command and command[0] in PROGRAMS:
                yield [
                    word[word.startswith("[") : len(word) - ("[" not in word[1:] and word.endswith("]"))]
                    for word in command
                ]


def split(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands between separators, without what is redirected."""
    command: list[str] = []
    redirected = False
    for word in words:
        if re.fullmatch(r"[;|&]+", word):
            yield command
            command = []
        elif re.fullmatch(r"[<>]+", word):
            redirected = True
        elif redirected:
            redirected = False
        else:
            command.append(word)
    yield command


def fault(command: list[str]) -> str:
    """Return why a command could not be typed, or an empty string."""
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            match command:
                case ["python", "-m", module, *words]:
                    of_module(module, words)
                case [flow, *words] if flow in FLOWS:
                    of_module(flow, words)
                case ["make", target, *_]:
                    known(target, re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
                case ["sbatch", *words]:
                    scripts = [place for place, word in enumerate(words) if word.endswith(".sbatch")]
                    for place in scripts[:1]:
                        known(words[place], tracked())
                        BatchOptions.parse(["--cluster", "srun", *words[place + 1 :]])
                case ["prefect", "deployment", "run", name, *words]:
                    of_deployment(name, words)
                case ["pip", "install", *words]:
                    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
                    for extras in re.findall(r"(?:ikmap|\.)\[(.*?)\]", " ".join(words)):
                        for extra in extras.split(","):
                            known(extra, project["optional-dependencies"])
    except (InputError, ValueError, ImportError) as error:
        stands_for_another = any(PLACEHOLDER.fullmatch(word) and repr(word) in str(error) for word in command)
        return "" if stands_for_another else str(error)
    except SystemExit as ended:
        return said.getvalue().strip().splitlines()[-1] if ended.code else ""
    return ""


def known(name: str, names: Any) -> None:
    if name not in names:
        raise ValueError(f"{name!r} is not there")


def of_module(module: str, words: list[str]) -> None:
    """Check ``python -m module words``."""
    if not has_papers() and (module == "flows.reproduce" or without_learners(shlex.join(words))):
        return
    words = [] if set(words) & {"--help", "--help-all"} else words
    if module in FLOWS:
        if words:
            at_config = words.index("--config") if "--config" in words else len(words)
            FLOWS[module].parse(words[:at_config] + words[at_config + 2 :])
    elif module == "benchmarks":
        for name in benchmarks.parser().parse_args(words).names:
            known(name, {*NAMES, "all"})
    elif module == "benchmarks.page":
        page.parser().parse_args(words)
    elif importlib.util.find_spec(module) is None:
        raise ValueError(f"there is no module {module}")


def of_deployment(name: str, words: list[str]) -> None:
    """Check ``prefect deployment run FLOW/NAME -p OPTION=VALUE``."""
    flow, _, place = name.partition("/")
    files = [path for path in tracked() if path.endswith("prefect.yaml")]
    deployments = [one for path in files for one in yaml.safe_load((ROOT / path).read_text())["deployments"]]
    known(f"{flow}/{place}", {f"{one['entrypoint'].rpartition('.')[2]}/{one['name']}" for one in deployments})
    for before, word in pairwise(words):
        if before in ("-p", "--param"):
            option, _, value = word.partition("=")
            of_option(f"--{option.replace('_', '-')}", [value], [FLOWS[f"flows.{flow}"]])


# Options by themselves


@cache
def specs() -> dict[str, list[Option]]:
    """Every option of the commands by its flag, with all declarations that it has."""
    found: dict[str, list[Option]] = {}
    for command in FLOWS.values():
        for spec in command.specs().values():
            found.setdefault(spec.flag, []).append(spec)
            if isinstance(spec.kind, Flag):
                found.setdefault(f"--no-{spec.flag[2:]}", []).append(spec)
        for method, scope in command.SCOPES.items():
            for spec in scope.values():
                found.setdefault(f"--{method}.{spec.flag[2:]}", []).append(spec)
    return found


def of_option(flag: str, values: list[str], of: Sequence[type[Options]] = ()) -> None:
    """Check that a command has the option, and that one takes the value."""
    if flag == "--preset" and not of:
        known(" ".join(values), {"", "NAME", *BatchOptions.PRESETS})
        return
    declared = [spec for command in of for spec in command.specs().values() if spec.flag == flag] if of else []
    declared = declared or ([] if of else specs().get(flag, []))
    if not declared:
        others = {
            option
            for action in [*benchmarks.parser()._actions, *page.parser()._actions]
            for option in action.option_strings
        }
        if of or flag not in {*others, *OPTIONS_OF_OTHERS, "--config", "--help", "--help-all"}:
            raise ValueError(f"no command has {flag}")
        return
    value = " ".join(values)
    if not value or PLACEHOLDER.fullmatch(value) or all(isinstance(spec.kind, Flag) for spec in declared):
        return
    faults = []
    for spec in declared:
        try:
            spec.check(spec.kind.parse(value))
        except ValueError as error:
            faults.append(str(error))
    if len(faults) == len(declared):
        raise ValueError(f"{flag}: {faults[0]}")


def options_of(span: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of a span, each with its words."""
    try:
        words = shlex.split(span)
    except ValueError:
        words = span.split()
    option: tuple[str, list[str]] | None = None
    for word in words:
        if re.match(r"--[a-zA-Z][\w.-]*[a-zA-Z0-9](?:=|$)|--[a-zA-Z]$", word):
            if option is not None:
                yield option
            flag, given, value = word.partition("=")
            option = (flag, [value] if given else [])
        elif option is not None and not option[1]:
            option[1].append(word)
    if option is not None:
        yield option


def option_fault(span: str) -> str:
    for flag, values in options_of(span):
        try:
            of_option(flag, values)
        except (ValueError, InputError) as error:
            return str(error)
    return ""


# Environment variables and Python


def unknown_variables(text: str) -> list[str]:
    """Variables of the environment that no file of the repository reads."""
    named = set(re.findall(r"\bIKMAP_[A-Z_]+[A-Z]\b", text))
    declared = {spec.environment for many in specs().values() for spec in many if spec.environment}
    declared |= {f"IKMAP_CLUSTER_{setting.upper()}" for setting in SETTINGS}
    return sorted(named - declared - variables())


@cache
def variables() -> frozenset[str]:
    code = [name for name in tracked() if name.endswith((".py", ".sbatch"))]
    return frozenset(
        found for name in code for found in re.findall(r"IKMAP_[A-Z_]+[A-Z]", (ROOT / name).read_text(encoding="utf-8"))
    )


def python_faults(code: str) -> list[str]:
    """Imports from our packages that fail, and calls of what they import with an argument that it has not."""
    tree = ast.parse(code)
    names: dict[str, Any] = {}
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("ikmap", "pipeline", "cluster"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if hasattr(module, alias.name):
                    names[alias.asname or alias.name] = getattr(module, alias.name)
                else:
                    faults.append(f"{node.module} has no {alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and callable(names.get(node.func.id)):
            faults += argument_faults(node.func.id, names[node.func.id], node)
    return faults


def argument_faults(name: str, what: Callable[..., Any], call: ast.Call) -> list[str]:
    parameters = inspect.signature(what).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return []
    return [f"{name} has no {key.arg}" for key in call.keywords if key.arg and key.arg not in parameters]


def is_python(block: str) -> bool:
    if not re.search(r"^(?:from|import) ", block, re.MULTILINE):
        return False
    try:
        ast.parse(block)
    except SyntaxError:
        return False
    return True


def calls(text: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the spans that are a call of a public name of `ikmap`."""
    import ikmap

    for span in spans(text):
        name = re.match(r"(?:ikmap\.)?([A-Z]\w+)\(", span)
        if name and hasattr(ikmap, name[1]):
            with contextlib.suppress(SyntaxError):
                node = ast.parse(span, mode="eval").body
                if isinstance(node, ast.Call) and ast.unparse(node.func) in (name[1], f"ikmap.{name[1]}"):
                    yield name[1], node


# The tests


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_could_be_typed(path: Path) -> None:
    found = {" ".join(command): fault(command) for command in commands(text_of(path))}
    assert {command: why for command, why in found.items() if why} == {}


NAME_OPTIONS_OF_PAPERS = {"norma.md", "options.md"}
"""Pages of the product that name options of papers too, and of methods that only these need."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=with_papers) if path.name in NAME_OPTIONS_OF_PAPERS else path for path in PAGES],
    ids=lambda path: path.name,
)
def test_options_are_those_of_a_command(path: Path) -> None:
    found = {span: option_fault(span) for span in spans(text_of(path)) if span.startswith("--")}
    assert {span: why for span, why in found.items() if why} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_and_environment_are_there(path: Path) -> None:
    import ikmap

    text = text_of(path)
    faults = [why for block in blocks(text) if is_python(block) for why in python_faults(block)]
    faults += [why for name, call in calls(text) for why in argument_faults(name, getattr(ikmap, name), call)]
    assert [*faults, *unknown_variables(text)] == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("python -m flows.batch --dataset a9a --psy 4", "--psy"),
        ("python -m flows.batch --dataset a9a --psi few", "--psi"),
        ("flows.score --input new.csv", "--model"),
        ("python -m benchmarks voronoy", "'voronoy'"),
        ("python -m benchmarks --docs x", "--docs"),
        ("python -m pipeline.nothing", "pipeline.nothing"),
        ("make coffee", "'coffee'"),
        ("pip install 'ikmap[tea]'", "'tea'"),
        ("prefect deployment run batch/nowhere", "nowhere"),
        ("prefect deployment run batch/default -p psy=4", "--psy"),
        ("sbatch cluster/slurm/batch.sbatch --psi few", "--psi"),
        ("sbatch cluster/slurm/no.sbatch", "no.sbatch"),
    ],
)
def test_a_command_that_could_not_be_typed_is_found(command: str, why: str) -> None:
    (words,) = commands(f"    {command}   # why not\n")
    assert why in fault(words)


def test_options_and_python_that_are_not_there_are_found() -> None:
    assert "no command has --psy" in option_fault("--psy 4")
    assert "--select-by" in option_fault("--select-by taste")
    assert option_fault("--svm.C 5 --psi auto --importance --column-plan x") == "no command has --column-plan"
    assert python_faults("from ikmap import CellSVC, CellTea\nCellSVC(C=5, d=1)") == [
        "ikmap has no CellTea",
        "CellSVC has no d",
    ]
    assert unknown_variables("`IKMAP_DATA_DIR`, `IKMAP_CLUSTER_QUEUE`, `IKMAP_" + "TEA`") == ["IKMAP_" + "TEA"]
    assert [name for name, _ in calls("`CellSVC(C=5)` and `load(x)`")] == ["CellSVC"]
