"""Settings of clusters: declared, checked, from flags, TOML and environment; what jobs are told."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cluster
from cluster import certificates, cuda, slurm, srun
from cluster.handle import _tunnel
from cluster.settings import KINDS, SETTINGS, check, resolve, scale
from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from tests import ROOT
from tests.support.narrow import address_of


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"needs {package}, which is an extra")


# --- settings --------------------------------------------------------------------------------------------


def test_values_get_their_types() -> None:
    words = ["queue=main", "walltime=2-12:00", "cores=4", "directive=--exclusive", "directive=-C avx2", "minimum=1"]
    assert check("slurm", [*words, "maximum=8"]) == {
        "queue": "main",
        "walltime": "2-12:00",
        "cores": 4,
        "directive": ("--exclusive", "-C avx2"),
        "minimum": 1,
        "maximum": 8,
    }


@pytest.mark.parametrize(
    ("kind", "word", "line"),
    [
        ("slurm", "queu=main", "unknown option 'queu'; did you mean 'queue'?"),
        ("slurm", "x=1", "unknown option 'x'; known: minimum"),
        ("local", "queue=main", "--cluster-option queue=main: found --cluster local, expected slurm"),
        ("tcp://h:1", "image=a", "found --cluster tcp://h:1, expected kubernetes"),
        ("slurm", "cores=0", "cores: found '0', expected an integer >= 1"),
        ("slurm", "cores=two", "cores: found 'two', expected an integer >= 1"),
        ("slurm", "port=70000", "expected an integer >= 1 and <= 65535"),
        ("slurm", "walltime=4 hours", "walltime: found '4 hours', expected a time of Slurm's"),
        ("slurm", "queue=a b", "queue: found 'a b', expected letters"),
        ("slurm", "queue=$(id)", "expected letters"),
        ("slurm", "directive=--a\nrm -rf x", "expected one line of text"),
        ("slurm", "minimum=2", "found minimum=2 without maximum"),
        ("kubernetes", "namespace=A_b", "expected a Kubernetes name"),
        ("cuda", "rmm_pool=lots", "rmm_pool: found 'lots', expected a size such as 10GB"),
        ("local", "dashboard=8787", "dashboard: found '8787', expected HOST:PORT"),
        ("local", "dashboard=a b:1", "expected HOST:PORT"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(kind: str, word: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        check(kind, [word])
    assert line in str(caught.value)
    assert str(caught.value).startswith("--cluster-option")


def test_settings_that_contradict_each_other() -> None:
    for words, line in (
        (["queue=a", "queue=b"], "given twice"),
        (["minimum=3", "maximum=2"], "expected minimum <= maximum"),
        (["gpus=4", "cores=2"], "expected a core for each GPU"),
    ):
        with pytest.raises(InputError, match=line):
            check("slurm", words)


def test_the_environment_is_the_default_and_what_other_kinds_have_is_ignored() -> None:
    site = {
        "IKMAP_CLUSTER_QUEUE": "site",
        "IKMAP_CLUSTER_CORES": "4",
        "IKMAP_CLUSTER_PROLOGUE": "module load a; b",
        "A": "",
    }
    assert resolve("slurm", ["queue=mine"], site) == {"queue": "mine", "cores": 4, "prologue": ("module load a", "b")}
    assert resolve("local", [], site) == {}
    for wrong, line in (
        ({"IKMAP_CLUSTER_QUEU": "a"}, "IKMAP_CLUSTER_QUEU: unknown option"),
        ({"IKMAP_CLUSTER_CORES": "x"}, "CORES: cores: found 'x'"),
    ):
        with pytest.raises(InputError, match=line):
            resolve("slurm", [], wrong)


def test_a_pool_of_gpu_memory_needs_gpus() -> None:
    for kind in ("slurm", "srun", "kubernetes"):
        with pytest.raises(
            InputError, match="rmm_pool=10GB: found no gpus, expected both: type --cluster-option gpus=N"
        ):
            resolve(kind, ["rmm_pool=10GB"], {})
        assert resolve(kind, ["rmm_pool=10GB"], {"IKMAP_CLUSTER_GPUS": "2"}) == {"rmm_pool": "10GB", "gpus": 2}
        assert resolve(kind, [], {"IKMAP_CLUSTER_RMM_POOL": "10GB"}) == {"rmm_pool": "10GB"}
    assert resolve("cuda", ["rmm_pool=10GB"], {}) == {"rmm_pool": "10GB"}


def test_number_of_workers() -> None:
    assert scale("slurm", 3, {}) == (3, 3)
    assert scale("slurm", None, {"maximum": 9}) == (1, 9)
    assert scale("slurm", None, {"minimum": 2, "maximum": 9}) == (2, 9)
    with pytest.raises(InputError, match="--workers: required with --cluster slurm"):
        scale("slurm", None, {})
    with pytest.raises(InputError, match="found both"):
        scale("slurm", 2, {"maximum": 9})


def test_a_number_of_workers_wins_over_the_bounds_of_a_site() -> None:
    site = {"IKMAP_CLUSTER_MINIMUM": "2", "IKMAP_CLUSTER_MAXIMUM": "9", "IKMAP_CLUSTER_QUEUE": "main"}
    assert resolve("slurm", [], site) == {"minimum": 2, "maximum": 9, "queue": "main"}
    values = resolve("slurm", [], site, workers=4)
    assert values == {"queue": "main"}
    assert scale("slurm", 4, values) == (4, 4)
    both = resolve("slurm", ["maximum=8"], site, workers=4)  # typed by the same person
    with pytest.raises(InputError, match="--workers 4 and maximum=8: found both"):
        scale("slurm", 4, both)


def test_every_setting_and_kind_is_documented() -> None:
    page = (ROOT / "docs/clusters.md").read_text()
    assert all(f"| `{name}` |" in page for name in SETTINGS)
    rows = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if line.startswith("| `")}
    for name, setting in SETTINGS.items():
        assert setting.help.replace("|", "\\|") in rows[name]
        assert setting.metavar.replace("|", "\\|") in rows[name]
    assert all(f"`{kind}`" in page for kind in KINDS)


# --- options of the commands -----------------------------------------------------------------------------


def test_flags_toml_and_environment_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ("queue=main", "directive=--a", "directive=--b")
    flags = ["--cluster", "slurm"] + [word for pair in expected for word in ("--cluster-option", pair)]
    toml = tmp_path / "run.toml"
    toml.write_text('cluster = "slurm"\n[cluster-option]\nqueue = "main"\ndirective = ["--a", "--b"]\n')
    options = BatchOptions.parse(flags)
    assert options.cluster_option == expected
    assert BatchOptions.parse(["--config", str(toml)]) == options
    assert BatchOptions.from_toml(options.to_toml()) == options
    assert BatchOptions(**options.to_dict()) == options
    assert BatchOptions.parse(shlex.split(options.command())[3:]) == options

    monkeypatch.setenv("IKMAP_CLUSTER", "slurm")
    monkeypatch.setenv("IKMAP_WORKERS", "3")
    monkeypatch.setenv("IKMAP_MEMORY_LIMIT", "2GB")
    found = ScoreOptions.parse(["--model", "a", "--input", "b"])
    assert (found.cluster, found.workers, found.memory_limit) == ("slurm", 3, "2GB")
    assert BatchOptions.parse(["--cluster", "local", "--workers", "1"]).cluster == "local"
    toml.write_text("workers = 5\n")
    assert BatchOptions.parse(["--config", str(toml)]).workers == 5


def test_what_a_site_sets_goes_with_every_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that are a site's defaults are not for clusters that run already, or that grow."""
    monkeypatch.setenv("IKMAP_WORKERS", "3")
    monkeypatch.setenv("IKMAP_MEMORY_LIMIT", "2GB")
    for words, workers, memory in (
        (["--cluster", "slurm"], 3, "2GB"),
        (["--cluster", "slurm", "--cluster-option", "maximum=8"], None, "2GB"),
        (["--cluster", "tls://a:1"], None, None),
        (["--cluster", "tls://a:1", "--workers", "2"], 2, None),  # refused when it is connected to
    ):
        options = BatchOptions.parse(words)
        assert (options.workers, options.memory_limit) == (workers, memory)
    monkeypatch.setenv("IKMAP_CLUSTER", "tcp://a:1")
    assert BatchOptions.parse([]).workers is None


def test_a_site_that_sets_both_numbers_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IKMAP_WORKERS", "3")
    monkeypatch.setenv("IKMAP_CLUSTER_MAXIMUM", "9")
    for kind in ("slurm", "kubernetes"):
        with pytest.raises(InputError, match=r"^IKMAP_WORKERS=3 and IKMAP_CLUSTER_MAXIMUM=9: found both, .*; type --w"):
            BatchOptions.parse(["--cluster", kind])
    for words, workers in (
        (["--cluster", "slurm", "--workers", "4"], 4),
        (["--cluster", "slurm", "--cluster-option", "maximum=8"], None),
        (["--cluster", "local"], 3),
        (["--cluster", "tls://a:1"], None),
    ):
        assert BatchOptions.parse(words).workers == workers


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("IKMAP_CLUSTER", "slurn", "IKMAP_CLUSTER: found 'slurn', expected one of local"),
        ("IKMAP_WORKERS", "0", "IKMAP_WORKERS: found 0, expected an integer >= 1"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, line: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=line):
        BatchOptions.parse([])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--cluster-option", "queue"], "--cluster-option: found 'queue', expected KEY=VALUE"),
        (["--cluster-option", "queue=a"], "found --cluster local, expected slurm"),
        (["--cluster", "file:"], "--cluster: found 'file:', expected a scheduler file"),
    ],
)
def test_a_wrong_flag_is_named(words: list[str], line: str) -> None:
    with pytest.raises(InputError, match=line):
        BatchOptions.parse(words)


@pytest.mark.parametrize(
    ("kind", "extra", "hidden"),
    [("slurm", "slurm", "dask_jobqueue"), ("kubernetes", "k8s", "kr8s"), ("cuda", "gpu", "cupy")],
)
def test_a_missing_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, kind: str, extra: str, hidden: str
) -> None:
    monkeypatch.setitem(sys.modules, hidden, None)
    options = ["image=a"] if kind == "kubernetes" else []
    with pytest.raises(
        InputError, match=rf"--cluster {kind}: package {hidden} is missing; pip install 'ikmap\[{extra}\]'"
    ):
        cluster.connect(kind, workers=1, options=options)


def test_srun_needs_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match="--cluster srun: found no Slurm job here"):
        cluster.connect("srun")


def test_tunnel() -> None:
    assert _tunnel("http://10.0.0.7:8787/status") == "ssh -L 8787:127.0.0.1:8787 10.0.0.7"
    assert _tunnel("http://127.0.0.1:4321/status") == f"ssh -L 8787:127.0.0.1:4321 {os.uname().nodename}"
    assert _tunnel(None) is None
    assert _tunnel("proxy/status") is None


# --- scheduler files --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_scheduler_file(tmp_path: Path) -> None:
    said: list[str] = []
    with cluster.connect("local", workers=1, memory_limit="1GB", options=["tls=off"], say=said.append) as handle:
        path = tmp_path / "scheduler.json"
        path.write_text(json.dumps({"address": address_of(handle)}))
        with cluster.connect(f"file:{path}", say=said.append) as found:
            assert (found.kind, found.workers) == ("tcp", 1)
    reason = "is not encrypted, and whoever reaches its port can run code as you;"
    assert said == [
        f"warning: --cluster local {reason} leave out --cluster-option tls=off",
        f"warning: --cluster file:{path} {reason} start it with --protocol tls and give tls://HOST:PORT "
        "(docs/clusters.md)",
    ]
    for text, line in (
        (None, "No such file"),
        ("{", "not a file that dask scheduler --scheduler-file writes"),
        ("[]", "not a file that dask scheduler --scheduler-file writes"),
    ):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match=line):
            cluster.connect(f"file:{path}", options=["wait=1"])


# --- what jobs and workers are told ----------------------------------------------------------------------


def job_script(words: list[str], memory: int = 2 * 10**9, explicit: bool = True) -> str:
    jobqueue = slurm._jobqueue()
    options = slurm.job_options(check("slurm", words), memory, explicit=explicit)
    return str(jobqueue.slurm.SLURMJob("tls://10.0.0.1:8786", name="w", **options).job_script())


@needs("dask_jobqueue")
def test_script_of_a_worker_job(tmp_path: Path) -> None:
    words = [
        "queue=main",
        "account=lab",
        "cores=4",
        "walltime=02:00:00",
        "directive=--constraint=avx2",
        "interface=ib0",
    ]
    script = job_script([*words, "prologue=module load python", f"logs={tmp_path}"])
    lines = script.splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    for line in (
        "#SBATCH -J ikmap-worker",
        "#SBATCH -p main",
        "#SBATCH -A lab",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --mem=8G",
        "#SBATCH -t 02:00:00",
        "#SBATCH --constraint=avx2",
        "module load python",
        "export OMP_NUM_THREADS=1",
        "export DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=500ms",
        "export DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION=7140s",
    ):
        assert line in lines
    command = shlex.split(lines[-1])
    assert command[1:6] == ["-m", "cluster.worker", "-m", "distributed.cli.dask_worker", "tls://10.0.0.1:8786"]
    for flag, value in (
        ("--nthreads", "1"),
        ("--nworkers", "4"),
        ("--dashboard-address", "127.0.0.1:0"),
        ("--worker-class", "cluster.closed.ClosedWorker"),
        ("--interface", "ib0"),
    ):
        assert command[command.index(flag) + 1] == value
    assert "gpu" not in script


@needs("dask_jobqueue")
def test_script_of_a_gpu_worker_job(tmp_path: Path) -> None:
    script = job_script(["gpus=2", "rmm_pool=10GB", f"logs={tmp_path}"], explicit=False)
    assert "#SBATCH --gpus=2" in script
    assert "--mem" not in script.replace("--memory-limit", "")
    command = shlex.split(script.splitlines()[-1])
    assert command[1:5] == ["-m", "cluster.worker", "-m", "dask_cuda.cli"]
    for flag, value in (("--nthreads", "1"), ("--set-rmm-allocator-for-libs", "cupy"), ("--rmm-pool-size", "10GB")):
        assert command[command.index(flag) + 1] == value
    assert not {"--nworkers", "--nanny", "--rmm-async"} & set(command)
    assert "--mem=4G" in job_script(["gpus=2", "cores=8", f"logs={tmp_path}"])
    assert "--cpus-per-task=8" in job_script(["gpus=2", "cores=8", f"logs={tmp_path}"])


@needs("dask_jobqueue")
def test_paths_with_blanks_are_words_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a b/bin/python")
    script = job_script([f"logs={tmp_path}"])
    assert shlex.split(script.splitlines()[-1])[:2] == ["/a b/bin/python", "-m"]
    assert ' --local-directory "${TMPDIR:-/tmp}" ' in script


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["logs=/a b"], "logs"),
        (["shared=/it's"], "shared"),
        (["tls=/a b", "shared=/a b"], "tls"),
        (["tls=off"], "logs"),
    ],
)
def test_folders_that_no_script_can_name_are_refused(
    words: list[str], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a job is submitted. The default of `logs` lies in the working directory."""
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path / "a b" if words == ["tls=off"] else tmp_path)
    with pytest.raises(InputError, match=rf"path without blanks and quotes.*type --cluster-option {option}=DIR"):
        slurm.start(workers=1, memory_limit=None, values=check("slurm", words), say=print)


@pytest.mark.slow
@needs("dask_jobqueue")
def test_dask_jobqueue_leaves_interrupts_alone() -> None:
    """Importing it makes Ctrl-C end the process with status 0."""
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT)\n"
        "from cluster.slurm import _jobqueue; _jobqueue()\n"
        "assert signal.getsignal(signal.SIGINT) is before"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("5:30", 330), ("01:00:00", 3600), ("1-0", 86400), ("2-12:30", 217800), ("0-0:0:5", 5)],
)
def test_times_of_slurm(text: str, seconds: int) -> None:
    assert slurm.seconds_of(text) == seconds


def test_a_short_job_has_no_lifetime() -> None:
    """Workers leave a minute early, but not those that would hardly have begun."""
    lines = slurm.job_options(check("slurm", ["walltime=5", "prologue=a"]), 10**9)["job_script_prologue"]
    assert lines[0] == "a"
    assert not any("LIFETIME" in line for line in lines)


JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "3"}


def test_srun_command() -> None:
    secrets = ["--tls-key", "/shared/key"]
    command = srun.worker_step("tls://a:1", None, 10**9, {"interface": "ib0"}, secrets, JOB)
    assert command[0] == "srun"
    assert {"--ntasks=8", "--cpus-per-task=3", "--kill-on-bad-exit=0"} <= set(command)
    assert command[-2:] == secrets
    start = [sys.executable, "-m", "cluster.worker", "-m", "distributed.cli.dask_worker", "tls://a:1"]
    assert command[command.index(sys.executable) :][: len(start)] == start
    assert command[command.index("--memory-limit") + 1] == "1000000000B"
    few = srun.worker_step("tls://a:1", 3, 10**9, {}, [], {})
    assert "--ntasks=3" in few
    assert not any(word.startswith("--cpus-per-task") for word in few)


def test_srun_command_with_gpus() -> None:
    command = srun.worker_step("tls://a:1", None, 10**9, {"gpus": 4}, [], JOB)
    assert {"--ntasks=2", "--ntasks-per-node=1", "--gpus-per-node=4", "dask_cuda.cli", "--rmm-async"} <= set(command)
    assert srun.count(None, {"gpus": 4}, JOB) == 8


def test_memory_of_a_worker_in_an_allocation() -> None:
    per_cpu, per_node = {**JOB, "SLURM_MEM_PER_CPU": "1000"}, {**JOB, "SLURM_MEM_PER_NODE": "8000"}
    mib = {
        (None, None): (3000, 2000),  # eight tasks of three processors each, four on a node
        (2, None): (3000, 8000),
        (3, None): (3000, 4000),
        (None, 2): (6000, 4000),  # four workers, whatever the number of tasks is
        (None, 8): (1500, 1000),
    }
    for (workers, gpus), sizes in mib.items():
        values = {} if gpus is None else {"gpus": gpus}
        found = tuple(srun.share(workers, values, job) for job in (per_cpu, per_node))
        assert found == tuple(int(size * 2**20 * 0.8) for size in sizes)
    assert srun.share(None, {}, JOB) == 4 * 10**9


def test_options_of_a_cuda_cluster() -> None:
    options = cuda.cluster_options(2, "8GB", {"rmm_pool": "10GB"}, "/scratch", certificates.temporary())
    assert (options["n_workers"], options["threads_per_worker"], options["memory_limit"]) == (2, 1, 8 * 10**9)
    assert (options["rmm_pool_size"], options["rmm_allocator_external_lib_list"]) == ("10GB", ["cupy"])
    assert options["host"] == "127.0.0.1"
    assert options["security"].require_encryption
    assert cuda.cluster_options(None, None, {}, "/scratch", None)["rmm_async"] is True
    assert "rmm_async" not in options


@needs("dask_cuda")
@needs("cupy")
def test_dask_cuda_takes_these_options() -> None:
    import inspect

    from dask_cuda import LocalCUDACluster
    from distributed import LocalCluster

    taken = {*inspect.signature(LocalCUDACluster).parameters, *inspect.signature(LocalCluster).parameters}
    for values in ({"rmm_pool": "10GB"}, {}):
        assert set(cuda.cluster_options(2, "8GB", values, "/scratch", None)) <= taken


def unknown_to_dask_cuda(words: list[str]) -> set[str]:
    """Options on a command line that ``dask cuda worker`` does not have."""
    from dask_cuda.cli import worker

    known = {name for parameter in worker.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return {word.partition("=")[0] for word in words if word.startswith("--")} - known


@needs("dask_cuda")
@needs("dask_jobqueue")
@pytest.mark.parametrize("pool", [[], ["rmm_pool=10GB"]])
def test_dask_cuda_knows_every_word_of_a_worker(pool: list[str], tmp_path: Path) -> None:
    script = job_script(["gpus=2", f"logs={tmp_path}", *pool], explicit=True)
    of_slurm = shlex.split(script.splitlines()[-1])
    of_srun = srun.worker_step("tls://a:1", None, 10**9, check("slurm", ["gpus=4", "interface=ib0", *pool]), [], JOB)
    for command in (of_slurm, of_srun):
        words = command[command.index("dask_cuda.cli") + 1 :]
        assert "--pre-import" in words
        assert unknown_to_dask_cuda(words) == set()


def test_extras_bring_what_a_gpu_needs() -> None:
    """A wheel of CuPy has no cuBLAS and no NVRTC in it, and dask-cuda does not ask for the pool it is told to make."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, cuda_version in (("gpu", "12"), ("gpu13", "13")):
        text = " ".join(extras[extra])
        for needed in (f"cupy-cuda{cuda_version}x[ctk]", f"dask-cuda[cu{cuda_version}]", f"rmm-cu{cuda_version}="):
            assert needed in text
        versions = {found.split("==")[1] for found in extras[extra] if found.startswith(("dask-cuda", "rmm"))}
        assert len(versions) == 1


def test_the_run_directory_of_a_job_is_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IKMAP_RUN_DIR", "runs/job")
    assert BatchOptions.parse([]).run_dir == "runs/job"
    assert BatchOptions.parse(["--run-dir=mine"]).run_dir == "mine"
    (tmp_path / "run.toml").write_text('run_dir = "theirs"\n')
    assert BatchOptions.parse(["--config", str(tmp_path / "run.toml")]).run_dir == "theirs"
    assert ScoreOptions.parse(["--model", "a", "--input", "b"]).model == "a"  # it has none
