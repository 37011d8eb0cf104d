"""The commands: ``python -m flows.batch``, ``flows.online``, ``flows.score`` and ``flows.reproduce``.

Each command reads its options (``options/``) and calls what does the work (``runs/``), as a Prefect flow (``prefect/``)
where a Prefect API is set up. Open ``batch.py`` first.
"""

import sys

from flows import interrupts

if sys.argv[:1] == ["-m"]:  # Python looks for the command's module, so this is the first line of ours that it runs
    interrupts.end_at_once()
