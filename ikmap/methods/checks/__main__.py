"""``python -m ikmap.methods.checks NAME ...``."""

import sys

from ikmap.methods.checks import main

sys.exit(main(sys.argv[1:]))
