"""The commands: ``python -m flows.batch``, ``flows.online``, ``flows.score`` and ``flows.reproduce``.

Each command reads its options (``options/``) and calls what does the work (``runs/``), as a Prefect flow (``prefect/``)
where a Prefect API is set up. Open ``batch.py`` first.
"""

import sys

if sys.version_info < (3, 12):  # noqa: UP036 - an older Python cannot parse the other modules
    sys.stderr.write("ikmap needs Python 3.12 or newer, found {}.{}\n".format(*sys.version_info))
    sys.exit(2)

from flows import interrupts

if sys.argv[:1] == ["-m"]:  # Python looks for the command's module, so this is the first line of ours that it runs
    interrupts.end_at_once()
