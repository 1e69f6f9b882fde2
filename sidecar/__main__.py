"""The command ``capacity-sidecar``."""

from __future__ import annotations

import sys

from sidecar.signals import StopRequest


def main() -> int:
    """Run the command line; the result is the exit status."""
    stop = StopRequest()
    stop.install()
    # Imported after the handlers are in place: it takes a while.
    from sidecar.cli import run

    return run(sys.argv[1:], stop)


if __name__ == "__main__":
    sys.exit(main())
