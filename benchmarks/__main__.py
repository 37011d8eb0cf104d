"""``python -m benchmarks [NAME ...]``: without a name, what there is; with names, measure and write the tables."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import LONG, NAMES

UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
NOTED = "IKMAP_BENCHMARKS_UNSET"


def clean_environment(threads: int) -> list[str]:
    """Let OpenBLAS choose its own kernel, and every library see `threads` cores; before NumPy is loaded.

    Returns
    -------
    list of str
        Names of the variables that were unset, here or before this process replaced itself.
    """
    found = [name for name in UNSET if name in os.environ]
    for name in found:
        del os.environ[name]
    before = [name for name in os.environ.get(NOTED, "").split(",") if name]
    os.environ[NOTED] = ",".join(before + found)
    if found and "numpy" in sys.modules:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > threads:
        os.sched_setaffinity(0, cores[:threads])
    return before + found


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    result.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; 'all' is all but {', '.join(LONG)}"
    )
    result.add_argument("--repeats", type=int, default=5, help="interleaved runs of every side (default 5)")
    result.add_argument("--quick", action="store_true", help="small sizes: does it work? the figures mean nothing")
    result.add_argument("--data-dir", help="where the data sets lie (default: $IKMAP_DATA_DIR, else the user cache)")
    result.add_argument("--datasets", help="comma-separated, in place of the benchmark's own")
    result.add_argument(
        "--tables-dir", help="tables: where public tables lie (default: $IKMAP_TABLES_DIR, else ./tables)"
    )
    result.add_argument(
        "--rows", type=int, default=20_000, help="tables: training rows at most; 0: all (default 20000)"
    )
    result.add_argument("--splits", type=int, default=0, help="tables: splits of each table (default 5)")
    result.add_argument("--sides", help="tables: comma-separated, in place of all sides")
    result.add_argument("--output", default="runs/benchmarks", help="folder of the JSON files and tables (%(default)s)")
    result.add_argument("--threads", type=int, default=2, help="cores that either side may use (default 2)")
    result.add_argument("--limit", type=float, default=30.0, help="seconds after which a side is not repeated (30)")
    result.add_argument("--fresh", action="store_true", help="measure again what the folder holds already")
    result.add_argument(
        "--record",
        action="store_true",
        help="keep the results in docs/measured and write the pages from them; without a name, all of --output",
    )
    return result


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    unset = clean_environment(asked.threads)
    if unset:
        print(f"unset for this command, so that OpenBLAS chooses its own kernel: {', '.join(unset)}")
    from benchmarks import runner
    from benchmarks.harness import Options
    from benchmarks.records import write_pages
    from pipeline.errors import InputError
    from pipeline.sources.datasets.known import default_data_dir

    folder = Path(asked.output) / "quick" if asked.quick else Path(asked.output)
    names = [name for given in asked.names for name in (NAMES[: -len(LONG)] if given == "all" else (given,))]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"benchmarks: found {unknown[0]!r}, expected one of {', '.join(NAMES)} or all", file=sys.stderr)
        return 2
    if asked.record and asked.quick:
        print("benchmarks: --quick gives figures that mean nothing; --record keeps none of them", file=sys.stderr)
        return 2
    if not names and not asked.record:
        runner.show_list()
        return 0
    options = Options(
        repeats=max(1, asked.repeats),
        quick=asked.quick,
        data_dir=(Path(asked.data_dir).expanduser() if asked.data_dir else default_data_dir()).absolute(),
        datasets=tuple(asked.datasets.split(",")) if asked.datasets else (),
        threads=asked.threads,
        limit=asked.limit,
        tables_dir=Path(asked.tables_dir or os.environ.get("IKMAP_TABLES_DIR") or "tables").expanduser().absolute(),
        rows=max(0, asked.rows),
        splits=max(0, asked.splits),
        sides=tuple(asked.sides.split(",")) if asked.sides else (),
    )
    failed = 0
    try:
        for name in names:
            failed += runner.run(name, options, folder, unset=unset, fresh=asked.fresh)
    except InputError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    if asked.record:
        print(f"recorded: {', '.join(runner.record(folder, names)) or 'nothing'}")
        for page in write_pages():
            print(f"wrote {page.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
