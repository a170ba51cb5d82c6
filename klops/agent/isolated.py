"""How this agent starts Python: as it was started itself."""

from __future__ import annotations

import sys

#: Isolated, and without ``site``: nothing of the image can shadow a module of the agent. In a container that
#: klops didn't make nothing is compiled into the image's folders either.
PYTHON = [sys.executable, "-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
