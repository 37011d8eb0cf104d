"""Nets under the methods: what they say and give, recorded before they are rewritten, and tests that compare.

Each net is a module that makes the record and a test that compares the code as it is now with the record. See
README.md in this folder. Other packages with methods are left out, as in all tests.
"""

import os

os.environ.setdefault("IKMAP_PACKAGES", "off")  # as in all tests; for ``python -m tests.nets.declarations``
