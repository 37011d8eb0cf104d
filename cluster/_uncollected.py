"""Stop Python looking for garbage among the modules that a process imports after this one, until another ends that."""

import gc

gc.disable()
