"""Listings as GNU and busybox print them."""

from __future__ import annotations

import pytest

from klops.commands.listing import Entry, mode_bits, parse

GNU = """\
drwxrwxrwt 18 0 0 4096 Nov 29 15:26 /tmp
crw-rw-rw- 1 0 0 195, 255 Nov  9 15:26 /dev/xpuctrl
lrwxrwxrwx. 1 0 0 7 Mar  4  2025 /bin -> usr/bin
-rw-r-----+ 1 1000 1001 12 Nov 29 15:26 /srv/a name with  spaces
"""


def test_types_modes_owners_and_devices() -> None:
    found = parse(GNU)
    assert found["/tmp"] == Entry("directory", 0o1777, 0, 0, size=4096, links=18)
    assert found["/dev/xpuctrl"] == Entry("char", 0o666, 0, 0, major=195, minor=255)
    assert found["/bin"] == Entry("link", 0o777, 0, 0, size=7, target="usr/bin")
    assert found["/srv/a name with  spaces"] == Entry("file", 0o640, 1000, 1001, size=12)


def test_busybox_pads_device_numbers() -> None:
    line = "brw-------    1 0        0           8,   0 Nov 29 15:26 /dev/sda"
    assert parse(line)["/dev/sda"] == Entry("block", 0o600, 0, 0, major=8, minor=0)


def test_noise_is_passed_over() -> None:
    text = "Welcome!\nls: cannot access '/x': No such file or directory\n" + GNU
    assert set(parse(text)) == {"/tmp", "/dev/xpuctrl", "/bin", "/srv/a name with  spaces"}


@pytest.mark.parametrize(
    ("letters", "bits"),
    [
        ("rwxr-xr-x", 0o755),
        ("rwsr-sr-t", 0o7755),
        ("rwSr-Sr-T", 0o7644),
        ("---------", 0),
    ],
)
def test_setuid_setgid_and_sticky(letters: str, bits: int) -> None:
    assert mode_bits(letters) == bits
