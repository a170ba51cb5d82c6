"""Where the package starts. Takes compiled modules from beside it when they are there."""

from __future__ import annotations

import os
import sys


def _start() -> int:
    package = os.path.realpath(sys.path[0])
    compiled = f"{os.path.splitext(package)[0]}.cache-{sys.implementation.cache_tag}"
    if os.path.isdir(compiled):
        sys.path.insert(0, compiled)
    from klops.agent.main import main

    return main(sys.argv[1:], package)


if __name__ == "__main__":
    sys.exit(_start())
