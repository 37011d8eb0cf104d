"""The memory that control groups leave a process, of trees of files such as the system has."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cluster.memory import room


def of(tmp_path: Path, groups: str, files: dict[str, str]) -> float:
    """Return the room of a process in these groups, with these files below the folder where groups are mounted."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return room(tmp_path / "self", tmp_path / "mounted")


def test_the_group_that_leaves_least_decides(tmp_path: Path) -> None:
    """The limit of a Slurm job is that of a group above the process; the root has none."""
    files = {
        "slurm/memory.max": "9000\n",
        "slurm/memory.current": "100\n",
        "slurm/job_7/memory.max": "5000\n",
        "slurm/job_7/memory.current": "2500\n",
        "slurm/job_7/memory.stat": "anon 1000\nactive_file 700\ninactive_file 500\n",
        "slurm/job_7/step_0/memory.max": "max\n",
        "slurm/job_7/step_0/memory.current": "2000\n",
        "slurm/other/memory.max": "1\n",
    }
    assert of(tmp_path, "0::/slurm/job_7/step_0\n", files) == 3700


def test_groups_of_the_first_version_are_those_of_memory(tmp_path: Path) -> None:
    files = {
        "memory/job/memory.limit_in_bytes": "4000\n",
        "memory/job/memory.usage_in_bytes": "1500\n",
        "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cpu/job/memory.limit_in_bytes": "1\n",
    }
    assert of(tmp_path, "4:cpu,cpuacct:/job\n3:name=systemd:/job\n2:memory:/job\n0::/job\n", files) == 3000


@pytest.mark.parametrize("path", ["/", "/docker/0a1b", "/../../outside"])
def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path, path: str) -> None:
    assert of(tmp_path, f"0::{path}\n", {"memory.max": "700", "memory.current": "300"}) == 400


@pytest.mark.parametrize("groups", ["", "0::/\n", "no lines of groups\n", "0::/a\n5:memory:/a\n"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, groups: str) -> None:
    assert of(tmp_path, groups, {"a/memory.max": "max", "memory/a/memory.limit_in_bytes": ""}) == math.inf


def test_a_group_that_is_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    assert of(tmp_path, "0::/", {"memory.max": "700", "memory.current": "800"}) == 0


def test_a_process_without_groups_has_no_limit(tmp_path: Path) -> None:
    assert room(tmp_path, tmp_path) == math.inf
