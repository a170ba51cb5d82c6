from __future__ import annotations

import pytest

from klops.commands.mounts import Mount, ancestors, host_path, parse_df

MOUNTS = [Mount.of("/data:/data"), Mount.of("/disk2/models:/data/models:ro"), Mount.of("/srv/:/opt/srv/")]


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("/data/a", "/data/a"),
        ("/data", "/data"),
        # the longest mount wins
        ("/data/models/qwen", "/disk2/models/qwen"),
        ("/data/models", "/disk2/models"),
        # and only whole names count
        ("/data/models2/qwen", "/data/models2/qwen"),
        ("/database/x", None),
        ("/opt/srv/x/", "/srv/x"),
        ("/opt/srv/../srv/y", "/srv/y"),
        ("/opt", None),
        ("/models/qwen", None),
    ],
)
def test_host_path(inside: str, outside: str | None) -> None:
    assert host_path(inside, MOUNTS) == outside


def test_the_whole_host_mounted() -> None:
    assert host_path("/host/a", [Mount.of("/:/host")]) == "/a"
    assert host_path("/a", [Mount.of("/x:/")]) == "/x/a"


def test_ancestors() -> None:
    assert ancestors("/a/b/") == ("/a/b", "/a", "/")
    assert ancestors("/") == ("/",)


def test_df_first_row_is_the_nearest_that_exists() -> None:
    text = (
        "df: /data/klops: No such file or directory\n"
        "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
        "/dev/sdb1 100 1 2097152 1% /data with blank\n/dev/sda1 100 1 1 1% /\n"
    )
    space = parse_df(text)
    assert space is not None
    assert (space.gib, space.mount) == (2.0, "/data with blank")
    assert parse_df("") is None
    assert parse_df("Filesystem\n") is None


def test_a_row_without_a_number_is_none() -> None:
    assert (
        parse_df("Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda 9 1 \u00b2 1% /\n")
        is None
    )
