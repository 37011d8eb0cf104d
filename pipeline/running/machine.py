"""Describe this machine, for readers of measurements."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from ikmap.json_values import JsonObject


def processor() -> str:
    """Return the name of the processor, as far as the system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_machine() -> JsonObject:
    """Return processor, number of cores, memory and system."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
