"""Load what tasks need, once: the process that forks the workers of this machine imports this module."""

from __future__ import annotations

import gc

from pipeline.running.warm import load

load()
# What stands in memory now is shared with the workers as long as nobody writes to it; to look for cycles is to write.
gc.freeze()
