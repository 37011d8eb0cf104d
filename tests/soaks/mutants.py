"""``python -m tests.soaks.mutants``: change the code in small ways, and see whether the tests notice.

Needs ``pip install cosmic-ray``, which makes the mutants: another operator, comparison or number, a condition turned
round, a loop that is not entered. Places are drawn by ``--seed`` from the pure Python modules of `ikmap.learners`,
`ikmap.partitioners` and `ikmap.tasks`, and one mutant of each place; annotations, docstrings, messages of errors and
compiled loops are left out. Only a copy of the tree is changed.

The tests of `ikmap` run once, and the lines that each of them runs are kept beside ``--to``. A mutant then meets the
tests that run its line, the quickest first, and where these are few, those that run anything of its module. If it
survives, it meets all files of tests, but those of whole processes, that name its module; not with ``--quick``. What is
left is printed as a difference. All results are written to ``--to``, one JSON object a line; a run that finds lines
there goes on from them.

``mutant_verdicts.json`` beside this file says of mutants why no test can tell them from the code, or none should. These
meet only the quick tests. With ``--record``, nothing is changed or run: what is in ``--to`` goes into
``docs/measured/mutants.json``, the mutants that are left with their verdicts.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.environment import describe, machine
from benchmarks.records import WRITTEN, Record, Table, commit, save


class Change(NamedTuple):
    """Lines of a module, and what was put in their place."""

    module: str
    was: str
    became: str


PACKAGES = ("learners", "partitioners", "tasks")
OPERATORS = (
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ReplaceFalseWithTrue", "ReplaceTrueWithFalse", "ZeroIterationForLoop",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub",
    *(f"ReplaceBinaryOperator_{pair}" for pair in (
        "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul", "BitAnd_BitOr",
        "BitOr_BitAnd", "LShift_RShift", "RShift_LShift")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt",
        "Is_IsNot", "IsNot_Is")),
)  # fmt: skip
"""One or two for each kind of place: another one that takes the place of the same plus is found by the same tests."""
PRELOADED = ("scipy.sparse", "numba", "sklearn.base", "distributed", "pytest")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
QUICK = 10.0
"""Seconds of tests that a mutant meets first, but at least one test."""
CPU_SECONDS = {"survived quick tests": 60, "survived": 900}
"""CPU seconds after which a mutant is ended, in each of the two stages: it loops. Waiting for others does not count."""


def main() -> int:
    """Print a line for each mutant, and the counts; the status is 1 if any survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=int, default=300, help="places to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--quick", action="store_true", help="stop after the quick tests")
    parser.add_argument("--record", action="store_true", help="write docs/measured/mutants.json from --to, and stop")
    parser.add_argument("--to", type=Path, default=Path("mutants.jsonl"))
    asked = parser.parse_args()
    to = asked.to.absolute()
    known = {tuple(m["place"]): m for m in map(json.loads, to.read_text().splitlines())} if to.exists() else {}
    explained = verdicts()
    if asked.record:
        save("mutants", record(known.values(), explained))
        return 0
    for name in PRELOADED:
        __import__(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(Path.cwd(), tree, ignore=shutil.ignore_patterns(".*", "__pycache__"), symlinks=True)
        os.environ["NUMBA_CACHE_DIR"] = str(_cache(Path(folder)))
        os.environ["PYTHONPATH"] = str(tree)  # processes that tests start import the changed code too
        os.chdir(tree)
        lines = covering(to.with_suffix(".lines"))
        mutants = list(drawn(asked.take, asked.seed, asked.only))
        for again in (False,) if asked.quick else (False, True):  # all meet the quick tests before any meets more
            for mutant in mutants:
                place = tuple(mutant["place"])
                if _has_met(known.get(place), again=again) or (again and change_of(known[place]) in explained):
                    continue
                tests = files_naming(Path(place[0])) if again else quick_tests(lines, *place[:2])
                known[place] = mutant | tried(tree, mutant, tests, "survived" if again else "survived quick tests")
                with to.open("a") as out:
                    out.write(json.dumps(known[place]) + "\n")
                print(known[place]["outcome"], f"{known[place]['seconds']:.0f} s", *place, flush=True)
    left = [m for m in known.values() if m["outcome"].startswith("survived") and change_of(m) not in explained]
    for mutant in left:
        print("\n" + mutant["difference"])
    counts = Counter(mutant["outcome"] for mutant in known.values())
    print(f"{len(known)} mutants:", ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    return 1 if left else 0


def _has_met(mutant: dict[str, Any] | None, *, again: bool) -> bool:
    """Whether a mutant has met the tests of this stage, the quick ones or (`again`) all."""
    return mutant is not None and (not again or mutant["outcome"] != "survived quick tests")


def change_of(mutant: dict[str, Any]) -> Change:
    """Return the module of a mutant, and what was put in place of what."""
    lines = mutant["difference"].splitlines()[3:]
    was, became = ("\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return Change(mutant["place"][0], was, became)


def verdicts() -> dict[Change, str]:
    """Return the changes that are explained, with the reason why no test finds them."""
    found = json.loads(Path(__file__).with_name("mutant_verdicts.json").read_text(encoding="utf-8"))
    return {Change(verdict["module"], verdict["was"], verdict["became"]): verdict["why"] for verdict in found}


def record(mutants: Iterable[dict[str, Any]], explained: dict[Change, str]) -> Record:
    """Return the counts of each package, and every mutant that no test has found, with its verdict."""
    counts: dict[str, Counter[str]] = {package: Counter() for package in PACKAGES}
    left: list[list[str]] = []
    for mutant in mutants:
        change, outcome = change_of(mutant), mutant["outcome"]
        if outcome.startswith("survived"):
            outcome = "explained" if change in explained else "not explained"
            left.append([*change, explained.get(change, "")])
        counts[change.module.split("/")[1]][outcome] += 1
    kinds = ("killed", "ended", "explained", "not explained")
    rows = [[package, str(found.total()), *(str(found[kind]) for kind in kinds)] for package, found in counts.items()]
    total = sum(counts.values(), Counter())
    rows.append(["all", str(total.total()), *(str(total[kind]) for kind in kinds)])
    return Record(
        "python -m tests.soaks.mutants --record",
        time.strftime("%Y-%m-%d"),
        commit(),
        describe(machine(1, [])),
        WRITTEN,
        "Small changes of the code, one at a time: how many the tests noticed, and why no test notices the others.",
        [
            Table(["package", "mutants", "killed", "ended: they loop", "explained", "not explained"], rows),
            Table(["module", "was", "became", "why no test fails"], sorted(left)),
        ],
    )


def _cache(folder: Path) -> Path:
    """Return a copy of the cache of compiled loops, for mutants' own would fill it."""
    from ikmap._compiled_cache import folder as usual

    if usual().exists():
        shutil.copytree(usual(), folder / "cache" / "ikmap")
    return folder / "cache"


def modules(only: str) -> list[Path]:
    """Return the modules that are changed, as paths below the root."""
    found = [path for package in PACKAGES for path in sorted(Path("ikmap", package).rglob("*.py"))]
    return [path for path in found if not path.name.endswith("_loops.py") and only in path.as_posix()]


def _silent(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where annotations, errors, assertions and ``if TYPE_CHECKING`` stand."""
    found = []
    for node in ast.walk(ast.parse(source)):
        parts: list[Any] = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Raise | ast.Assert):
            parts.append(node)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts.append(node)
        found += [((p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)) for p in parts if p is not None]
    return found


def drawn(take: int, seed: int, only: str) -> Iterator[dict[str, Any]]:
    """Yield mutants: places over all modules, and one operator of each place, by the seed."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator

    operators = {name: get_operator(f"core/{name}")() for name in OPERATORS}
    places: dict[tuple[str, Any], list[tuple[str, int]]] = {}
    for path in modules(only):
        silent, nodes = _silent(path.read_text()), list(ast_nodes(get_ast_from_path(path)))
        for name, operator in operators.items():
            spots = (spot for node in nodes for spot in operator.mutation_positions(node))
            for occurrence, (start, end) in enumerate(spots):
                if not any(a <= start and end <= b for a, b in silent):
                    places.setdefault((path.as_posix(), start), []).append((name, occurrence))
    draw = random.Random(seed)
    chosen = draw.sample(sorted(places), min(take, len(places)))
    print(f"{len(chosen)} of {len(places)} places", flush=True)
    for module, (line, column) in chosen:
        name, occurrence = draw.choice(places[module, (line, column)])
        yield {"place": [module, line, column], "operator": name, "occurrence": occurrence}


class Lines:
    """A plugin of pytest that keeps which lines of the changed modules each test runs, and its seconds."""

    def __init__(self, to: Path) -> None:
        self.to, self.now = to, set[tuple[str, int]]()
        self.root = str(Path.cwd())
        self.known: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        self.names = {str(path) for path in modules("")}
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "mutants")
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self._line)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)

    def _line(self, code: Any, line: int) -> Any:
        path = code.co_filename.removeprefix(self.root + os.sep)
        if path in self.names:
            self.now.add((path, line))
        return sys.monitoring.DISABLE

    def pytest_runtest_logstart(self) -> None:
        """Begin anew: lines that another test ran are told again."""
        self.now = set()
        sys.monitoring.restart_events()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what a test ran, with what its fixtures did."""
        if report.when == "call" and report.passed:
            for place in self.now:
                self.known[place].append((round(report.duration, 3), report.nodeid))

    def pytest_sessionfinish(self) -> None:
        """Write everything down."""
        found = [[*place, sorted(tests)] for place, tests in self.known.items()]
        self.to.write_text(json.dumps(found))


def covering(to: Path) -> dict[tuple[str, int], list[tuple[float, str]]]:
    """Return the tests that run each line, with their seconds; `to` is a file of an earlier run, or written."""
    if not to.exists() and _status(["tests/ikmap"], resource.RLIM_INFINITY, Lines, to):
        raise SystemExit("found tests that fail before anything was changed, expected none")
    return {(path, line): [tuple(test) for test in tests] for path, line, tests in json.loads(to.read_text())}


def quick_tests(lines: dict[tuple[str, int], list[tuple[float, str]]], path: str, line: int) -> list[str]:
    """Return the tests of a line and then those of its module, the quickest of each first."""
    own = lines.get((path, line), [])
    # A line that runs as its module is imported is seen in the first test alone.
    others = sorted({test for place in lines if place[0] == path for test in lines[place]}.difference(own))
    chosen: list[str] = []
    seconds = 0.0
    for duration, test in (*own, *others):
        seconds += duration
        if chosen and seconds > QUICK:
            break
        chosen.append(test)
    return chosen


def files_naming(module: Path) -> list[str]:
    """Return the files of tests that name a module, and those of the folder that mirrors its own."""
    dotted = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
    wide = [p for root in ("ikmap", "pipeline") for p in sorted(Path("tests", root).rglob("test_*.py"))]
    beside = next(folder for folder in Path("tests", module).parents if folder.is_dir())
    return [str(path) for path in wide if dotted in path.read_text() or path.parent == beside]


def tried(tree: Path, mutant: dict[str, Any], tests: Sequence[str], otherwise: str) -> dict[str, Any]:
    """Run tests on a mutant, and return how it went."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    path, began = tree / mutant["place"][0], time.monotonic()
    before = path.read_text()
    after = mutate_code(before, get_operator(f"core/{mutant['operator']}")(), mutant["occurrence"])
    path.write_text(after)
    try:
        status = _status(tests, CPU_SECONDS[otherwise]) if tests else 0
    finally:
        path.write_text(before)
    name = str(path.relative_to(tree))
    told = difflib.unified_diff(before.splitlines(), after.splitlines(), name, "mutant", n=1, lineterm="")
    return {
        "outcome": "ended" if status < 0 else "killed" if status else otherwise,
        "tests": len(tests),
        "seconds": round(time.monotonic() - began, 1),
        "difference": "\n".join(told),
    }


def _status(tests: Sequence[str], cpu_seconds: int, plugin: Any = None, *of: Any) -> int:
    """Return the exit status of tests in a process of their own, which is below 0 if `cpu_seconds` ended them."""
    if not (child := os.fork()):
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            for name in [name for name in sys.modules if name.partition(".")[0] in ("ikmap", "tests")]:
                del sys.modules[name]
            sys.path[0] = os.getcwd()
            os._exit(sys.modules["pytest"].main([*OPTIONS, *tests], [plugin(*of)] if plugin else []))
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
