"""``python -m cluster.certificates DIR``: a certificate and key for all members of one cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Write ca.crt, tls.crt and tls.key into the folder named. Returns the exit status."""
    if len(argv) != 1 or argv[0].startswith("-"):
        print("usage: python -m cluster.certificates DIR   (writes ca.crt, tls.crt and tls.key)", file=sys.stderr)
        return 0 if argv[:1] in (["--help"], ["-h"]) else 2
    from cluster.certificates import temporary, write

    try:
        write(Path(argv[0]), temporary())
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{argv[0]}: for scheduler, workers and clients; whoever can read tls.key may run code on the cluster")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
