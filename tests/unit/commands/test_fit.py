from __future__ import annotations

from typing import Any

import pytest

from klops.commands.fit import inside_nodes, shares_root, unfit, weaker
from tests.unit.commands.inspects import NODES, ROOT, VERSIONS, Inspects, load

GIB = 1024**3
#: Of the container made by hand: the cards the other way round.
INSIDE = {
    "/dev/xpu0": "/dev/xpu3",
    "/dev/xpu1": "/dev/xpu2",
    "/dev/xpu2": "/dev/xpu1",
    "/dev/xpu3": "/dev/xpu0",
    "/dev/xpuctrl": "/dev/xpuctrl",
}
CARDS = ", ".join(NODES)


@pytest.fixture(params=VERSIONS)
def engine(request: pytest.FixtureRequest) -> Inspects:
    return load(request.param)


@pytest.fixture
def hand() -> dict[str, Any]:
    return load("20.10").hand


def test_one_made_by_hand_fits_and_is_weaker(engine: Inspects) -> None:
    assert unfit(engine.hand, NODES, {}, ROOT) == []
    assert inside_nodes(engine.hand, NODES, {}) == INSIDE
    assert not shares_root(engine.hand, ROOT)
    assert [text.split()[:4] for text in weaker(engine.hand, ROOT, 64 * GIB)] == [
        ["docker", "doesn't", "start", "it"],
        ["docker", "stop", "and", "docker"],
        ["it", "has", "no", "init:"],
        ["units,", "logs", "and", "the"],
        ["without", "seccomp=unconfined,", "system", "calls"],
        ["without", "SYS_PTRACE,", "debuggers", "and"],
        ["its", "/dev/shm", "has", "32g,"],
    ]


def test_one_that_klops_made_would_fit_as_well(engine: Inspects) -> None:
    assert unfit(engine.made, NODES, {}, ROOT) == []
    assert inside_nodes(engine.made, NODES, {}) == {node: node for node in NODES}
    assert shares_root(engine.made, ROOT)
    assert len(weaker(engine.made, ROOT, 32 * GIB)) == 1  # its supervisor is not its main process


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ({"Devices": None}, f"has no {CARDS}"),
        ({"Devices": [], "Binds": ["/dev:/dev"]}, f"sees only by a mount, which lets nobody open {CARDS}"),
        ({"NetworkMode": "bridge"}, "is not on the host's network (--network bridge)"),
        ({"NetworkMode": ""}, "is not on the host's network (--network default)"),
        ({"PidMode": "host"}, "shares its process numbers (--pid host), so whose a process is can't be told"),
        (
            {"ReadonlyRootfs": True},
            f"has a read-only root file system, and nothing writable is mounted at {ROOT}",
        ),
        ({"Tmpfs": {"/var/lib": ""}}, f"has {ROOT} in a tmpfs, where nothing lasts"),
    ],
)
def test_a_reason_why_not(hand: dict[str, Any], host: dict[str, Any], reason: str) -> None:
    hand["HostConfig"].update(host)
    assert unfit(hand, NODES, {}, ROOT) == [reason]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("paused", "is paused"),
        ("restarting", "keeps restarting"),
        ("dead", "is dead"),
        ("removing", "is being removed"),
        ("running", ""),
        ("exited", ""),
        ("created", ""),
    ],
)
def test_states(hand: dict[str, Any], state: str, reason: str) -> None:
    hand["State"]["Status"] = state
    found = unfit(hand, NODES, {}, ROOT)
    assert [text.startswith(reason) for text in found] == ([True] if reason else [])


@pytest.mark.parametrize(
    ("user", "fits"),
    [("", True), ("0", True), ("root", True), ("root:video", True), ("1000", False), ("v", False)],
)
def test_users(hand: dict[str, Any], user: str, fits: bool) -> None:
    hand["Config"]["User"] = user
    assert unfit(hand, NODES, {}, ROOT) == ([] if fits else [f"runs as user {user}, not as root"])


def test_every_reason_is_told(hand: dict[str, Any]) -> None:
    hand["State"]["Status"] = "paused"
    hand["HostConfig"].update(Devices=hand["HostConfig"]["Devices"][:2], NetworkMode="none")
    hand["HostConfig"]["Devices"][1]["CgroupPermissions"] = "r"
    assert [text.partition(" (")[0] for text in unfit(hand, NODES, {}, ROOT)] == [
        "is paused",
        "may not read and write",
        "has no /dev/xpu2, /dev/xpu3, /dev/xpuctrl",
        "is not on the host's network",
    ]


def test_nodes_by_their_real_path(hand: dict[str, Any]) -> None:
    for number, device in enumerate(hand["HostConfig"]["Devices"]):
        device["PathOnHost"] = f"/dev/by-path/card{number}"
    assert inside_nodes(hand, NODES, {}) == {}
    links = {f"/dev/by-path/card{number}": node for number, node in enumerate(NODES)}
    assert inside_nodes(hand, NODES, links) == INSIDE
    linked = {f"/dev/kunlun/{node[5:]}": node for node in NODES}
    assert inside_nodes(hand, list(linked), {**links, **linked}) == {
        link: INSIDE[node] for link, node in linked.items()
    }


def test_nodes_of_a_privileged_container(hand: dict[str, Any]) -> None:
    hand["HostConfig"].update(Privileged=True, Devices=[])
    assert inside_nodes(hand, [*NODES, "/srv/xpu0"], {}) == {node: node for node in NODES}
    hand["HostConfig"]["Binds"] = ["/srv:/dev/srv"]
    assert inside_nodes(hand, ["/srv/xpu0"], {}) == {"/srv/xpu0": "/dev/srv/xpu0"}


@pytest.mark.parametrize("bind", ["/dev:/dev", "/dev/:/dev/:rw", "/:/"])
def test_nodes_of_a_mount_count_when_they_may_be_opened(hand: dict[str, Any], bind: str) -> None:
    hand["HostConfig"].update(Devices=None, Binds=[bind])
    assert inside_nodes(hand, NODES, {}) == {}
    hand["HostConfig"]["DeviceCgroupRules"] = ["c 195:* rwm"]
    assert inside_nodes(hand, NODES, {}) == {node: node for node in NODES}


def test_nodes_of_a_folder(hand: dict[str, Any]) -> None:
    hand["HostConfig"]["Devices"] = [{"PathOnHost": "/dev/cards", "PathInContainer": "/dev"}]
    assert inside_nodes(hand, ["/dev/cards/xpu1", "/dev/cards2/xpu1"], {}) == {"/dev/cards/xpu1": "/dev/xpu1"}


def test_of_several_names_the_one_in_dev_counts(hand: dict[str, Any]) -> None:
    devices = [("/dev/xpu0", "/cards/a"), ("/dev/xpu0", "/dev/xpu5"), ("/dev/xpu0", "/zz")]
    hand["HostConfig"]["Devices"] = [{"PathOnHost": a, "PathInContainer": b} for a, b in devices]
    assert inside_nodes(hand, ["/dev/xpu0"], {}) == {"/dev/xpu0": "/dev/xpu5"}


def mount(source: str, inside: str, *, writable: bool = True, kind: str = "bind") -> dict[str, Any]:
    return {"Type": kind, "Source": source, "Destination": inside, "RW": writable, "Propagation": ""}


@pytest.mark.parametrize(
    ("mounts", "shares"),
    [
        ([mount(ROOT, ROOT)], True),
        ([mount("/var/lib", "/var/lib")], True),
        ([mount("/", "/")], True),
        ([mount("/srv/klops", ROOT)], False),
        ([mount("/var/lib/docker/volumes/a/_data", ROOT, kind="volume")], False),
        ([mount("/var/lib", "/var/lib"), mount("/srv/klops", ROOT)], False),
        ([mount("/var/lib", "/var/lib"), mount("/v/_data", ROOT, kind="volume")], False),
        ([mount(f"{ROOT}/agent", f"{ROOT}/agent")], False),
        ([mount("/var/lib/klops2", "/var/lib/klops2")], False),
        ([], False),
    ],
)
def test_whose_root_it_is(hand: dict[str, Any], mounts: list[dict[str, Any]], shares: bool) -> None:
    hand["Mounts"] = mounts
    assert shares_root(hand, ROOT) is shares
    assert shares_root(hand, f"{ROOT}/") is shares


def test_a_root_below_a_tmpfs_is_the_containers_own(hand: dict[str, Any]) -> None:
    hand["Mounts"] = [mount("/var/lib", "/var/lib")]
    hand["HostConfig"]["Tmpfs"] = {ROOT: "size=1g"}
    assert not shares_root(hand, ROOT)
    assert unfit(hand, NODES, {}, ROOT) == [f"has {ROOT} in a tmpfs, where nothing lasts"]


@pytest.mark.parametrize("kind", ["bind", "volume"])
def test_a_writable_mount_makes_up_for_a_read_only_root(hand: dict[str, Any], kind: str) -> None:
    hand["HostConfig"]["ReadonlyRootfs"] = True
    hand["Mounts"] = [mount("/srv/klops", ROOT, kind=kind)]
    assert unfit(hand, NODES, {}, ROOT) == []
    hand["Mounts"][0]["RW"] = False
    assert unfit(hand, NODES, {}, ROOT) == [f"has {ROOT} mounted read-only"]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"Name": "no"}, "docker doesn't start it again after a reboot (restart policy no)"),
        ({"Name": ""}, "docker doesn't start it again after a reboot (restart policy no)"),
        (
            {"Name": "unless-stopped"},
            "it stays stopped when the docker engine has crashed (restart policy unless-stopped)",
        ),
        (
            {"Name": "on-failure", "MaximumRetryCount": 3},
            "docker starts it again only when its main process failed (restart policy on-failure)",
        ),
    ],
)
def test_restart_policies(hand: dict[str, Any], policy: dict[str, Any], text: str) -> None:
    hand["HostConfig"]["RestartPolicy"] = policy
    assert weaker(hand, ROOT)[0] == text


def test_one_that_docker_removes(hand: dict[str, Any]) -> None:
    hand["HostConfig"]["AutoRemove"] = True
    found = weaker(hand, ROOT)
    assert "(--rm)" in found[0]
    assert not any("restart policy" in text for text in found)


def test_privileged_is_enough_for_debuggers_but_too_much_for_cards(hand: dict[str, Any]) -> None:
    hand["HostConfig"].update(Privileged=True)
    found = "\n".join(weaker(hand, ROOT))
    assert "privileged" in found
    assert "SYS_PTRACE" not in found
    assert "seccomp" not in found


@pytest.mark.parametrize(
    ("host", "small"),
    [
        ({"ShmSize": 32 * GIB}, False),
        ({"ShmSize": 32 * GIB - 1}, True),
        ({"ShmSize": 67108864, "Tmpfs": {"/dev/shm": "size=32g"}}, False),
        ({"ShmSize": 67108864, "IpcMode": "host"}, False),
    ],
)
def test_shared_memory(hand: dict[str, Any], host: dict[str, Any], small: bool) -> None:
    hand["HostConfig"].update(host)
    assert any("/dev/shm" in text for text in weaker(hand, ROOT, 32 * GIB)) is small
