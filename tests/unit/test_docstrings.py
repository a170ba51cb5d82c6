"""Examples in docstrings are what the code does."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import klops

_PACKAGE = Path(klops.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
    for path in _PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))
    assert done.attempted
    assert done.failed == 0
