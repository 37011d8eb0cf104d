"""Load the modules that tasks need, once: the process that forks the workers of this machine imports this module."""

from __future__ import annotations

import gc

from pipeline.running.warm import load

load()
# Memory is shared with the workers as long as nothing writes to it; looking for cycles would write to it.
gc.freeze()
gc.enable()
