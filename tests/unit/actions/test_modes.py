"""File modes: octal and symbolic, as chmod and Ansible apply them."""

from __future__ import annotations

import os
import stat
from itertools import product

import pytest

from klops.actions.files.modes import ModeError, SymbolicMode, applied, parse


@pytest.mark.parametrize("text", ["644", "0644", "0o644", " 0644 "])
def test_octal(text: str) -> None:
    assert parse(text) == 0o644
    assert parse("4755") == 0o4755


@pytest.mark.parametrize(
    ("text", "current", "is_dir", "bits"),
    [
        ("u=rw,go=r", 0o777, False, 0o644),
        ("u=rwX,g=rX,o=rX", 0o600, True, 0o755),
        ("u=rwX,g=rX,o=rX", 0o600, False, 0o644),
        ("a+X", 0o744, False, 0o755),
        ("a-w", 0o666, False, 0o444),
        ("u+s,g+s", 0o755, False, 0o6755),
        ("u=rwx", 0o4755, False, 0o755),
        ("o+t", 0o777, True, 0o1777),
        ("u+t,o+s", 0o755, False, 0o755),
        ("o=", 0o755, False, 0o750),
        ("g=u", 0o640, False, 0o660),
        ("u+rw-x", 0o100, False, 0o600),
        ("+w", 0o444, False, 0o644),
        ("+x", 0o644, False, 0o755),
        ("a+w", 0o444, False, 0o666),
    ],
)
def test_symbols(text: str, current: int, is_dir: bool, bits: int) -> None:
    assert applied(parse(text), current, is_dir) == bits


@pytest.mark.parametrize("text", ["", "64", "888", "064444", "rwx", "u=z", "q+x", "u", "u+x,", "ux=", "u=gr"])
def test_what_is_no_mode(text: str) -> None:
    with pytest.raises(ModeError, match="is not a file mode"):
        parse(text)


def test_as_ansible_applies_them() -> None:
    basic = pytest.importorskip("ansible.module_utils.basic", reason="ansible is not here to compare with")
    # not copies (g=u): Ansible copies what the same clause has changed already, and past the umask
    clauses = [
        "".join(parts) for parts in product(["u", "g", "o", "a", "ug", ""], "+-=", ["", "rw", "X", "st"])
    ]
    kinds = ((False, stat.S_IFREG), (True, stat.S_IFDIR))
    for text in [*clauses, "u=rw,g=u,o=g", "a-x,a+X", "u-x+X"]:
        for current, (is_dir, kind) in product((0, 0o644, 0o755, 0o4711, 0o7777), kinds):
            there = type("Stat", (), {"st_mode": current | kind})()
            mode = parse(text)
            assert isinstance(mode, SymbolicMode)
            wanted = basic.AnsibleModule._symbolic_mode_to_octal(there, text)
            assert mode.applied(current, is_dir, _umask()) == wanted, (text, oct(current), is_dir)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
