"""``python -m cluster.worker -m MODULE WORDS...``: what ``python -m MODULE WORDS...`` does, its files nobody else's.

MODULE is Dask's command for a worker. It keeps its files, and lets Python look for modules, in a folder of a fixed name
in ``--local-directory``. In one that all users of a machine share, such as ``/tmp``, somebody else may have made that
folder before, and would then read what workers put there, or put code there. Here it is one of this user's alone.
"""

from __future__ import annotations

import runpy
import sys

from cluster._scratch import folder_of_workers

FLAG = "--local-directory"


def main(arguments: list[str]) -> None:
    """Run the module in this process."""
    if arguments[:1] != ["-m"] or FLAG not in arguments:
        sys.exit(f"usage: python -m cluster.worker -m MODULE ... {FLAG} DIR ...")
    module, *words = arguments[1:]
    at = words.index(FLAG) + 1
    words[at] = str(folder_of_workers(words[at]))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
