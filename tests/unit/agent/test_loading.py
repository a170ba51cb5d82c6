"""What a verb that only reads loads: on a host where nothing is to be done that is most of what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import klops

#: Of the standard library: each takes longer to load than such a verb to answer.
COSTLY = {"argparse", "asyncio", "dataclasses", "inspect", "logging", "shutil", "subprocess", "traceback"}
_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from klops.agent.main import main
status = main(sys.argv[2:], "/nowhere/0.pyz")
sys.stderr.write(" ".join(sys.modules))
sys.exit(status)
"""


@pytest.mark.parametrize(
    ("verb", "needless"),
    [
        ("generations", COSTLY | {"hashlib", "socket"}),
        ("releases --verify --imports [] --paths []", COSTLY | {"socket"}),
    ],
)
def test_nothing_is_loaded_that_the_answer_does_not_need(
    tmp_path: Path, verb: str, needless: set[str]
) -> None:
    home = str(Path(klops.__file__).parents[1])
    argv = [sys.executable, "-I", "-S", "-B", "-c", _RUN, home, *verb.split(), "--root", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("{")
    assert not needless & set(done.stderr.split())
