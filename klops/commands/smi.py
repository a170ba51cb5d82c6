"""Builders of xpu-smi command lines. What it prints is read by :mod:`klops.cards.smi`."""

from __future__ import annotations


def machine(path: str) -> tuple[str, ...]:
    """One line a card."""
    return (path, "-m")


def query(path: str) -> tuple[str, ...]:
    """The indented report: the only form that tells the minor number and the UUID."""
    return (path, "-q")


def listing(path: str) -> tuple[str, ...]:
    """Index and one identity of each card."""
    return (path, "-L")


def topology(path: str) -> tuple[str, ...]:
    """How every two cards are linked."""
    return (path, "topo", "-m")
