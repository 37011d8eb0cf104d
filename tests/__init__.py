"""The tests, in folders named like the packages that they test; those that start whole processes are in ``system/``,
and in ``services/`` where these are servers of others.

``project/`` tests the repository itself, ``naive/`` holds slow and obvious versions to compare with, ``support/`` what
tests share, and ``plugins/`` methods that a stranger might add.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
