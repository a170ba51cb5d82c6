"""The control side has to load where there is no fcntl, pwd, termios or grp: on Windows.

Not run on Windows here; this blocks what Windows lacks and imports every control module. The libraries are
loaded first: they know Windows, and take their other branch there.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import klops

PROGRAM = """
import importlib, sys
import fabric, jinja2, paramiko, psutil, pydantic, rich.live, ruamel.yaml, structlog, tenacity, typer
for name in ("fcntl", "pwd", "termios", "grp", "resource", "pty", "tty"):
    sys.modules[name] = None
for module in sys.argv[1:]:
    importlib.import_module(module)
"""

#: the far side (Linux only by design) and the rehearsal host (root on Linux)
FAR_SIDE = ("klops.agent", "klops.sim", "klops.__main__")


def test_every_control_module_loads_without_the_unix_modules() -> None:
    modules = [
        m.name for m in pkgutil.walk_packages(klops.__path__, "klops.") if not m.name.startswith(FAR_SIDE)
    ]
    assert len(modules) > 20
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
