"""Builders of what else tells about cards on a host, without putting load on them."""

from __future__ import annotations

#: The driver's own version: the only one that counts, whatever a container's xpu-smi says.
DRIVER = "/proc/kunlun/version"
#: Where the driver has a folder ``devN`` a card.
DRIVER_CARDS = "/proc/kunlun"


def kernel_log(*, clock: bool) -> tuple[str, ...]:
    """The kernel log; with times of the host's ``clock``, which busybox doesn't know, else in seconds."""
    return ("dmesg", "-T") if clock else ("dmesg",)


def pci(vendor: str) -> tuple[str, ...]:
    """The devices of a vendor, given by four hex digits, in numbers."""
    return ("lspci", "-n", "-d", f"{vendor}:")


def driver_cards() -> tuple[str, ...]:
    """A name a line."""
    return ("ls", "-1", DRIVER_CARDS)
