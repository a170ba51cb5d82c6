from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.commands.containerspec import MANAGED_LABEL, ContainerSpec, size_in_bytes
from klops.commands.drift import HIDDEN, REAL, WEAKER, Drift, drift, parse_links
from tests.unit.commands.inspects import NODES, SPEC, VERSIONS, Inspects, load, of_another_spec
from tests.unit.commands.inspects.respell import respelled

LOADED = {version: load(version) for version in VERSIONS}
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(params=VERSIONS)
def engine(request: pytest.FixtureRequest) -> Inspects:
    return load(request.param)


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


def compared(engine: Inspects, raw: dict[str, Any], links: dict[str, str] | None = None) -> list[str]:
    """Keys that differ, where the tag still names the image that the container was made from."""
    return keys(drift(SPEC, raw, image=engine.image, wanted_image=engine.image, links=links))


def test_where_the_inspects_come_from() -> None:
    kinds = {version: loaded.source.split()[0] for version, loaded in LOADED.items()}
    recorded = [version for version, kind in kinds.items() if kind == "recorded"]
    constructed = [version for version, kind in kinds.items() if kind == "constructed"]
    print(f"recorded: {', '.join(recorded)}; constructed: {', '.join(constructed)}")
    assert recorded == ["20.10"]
    assert sorted(recorded + constructed) == sorted(VERSIONS)


def test_a_container_is_what_it_was_made_from(engine: Inspects) -> None:
    assert engine.made["Config"]["Labels"].items() >= dict(SPEC.labels).items()
    assert compared(engine, engine.made) == []
    assert compared(engine, of_another_spec(engine.made)) == []
    assert keys(drift(SPEC, engine.made)) == []


def test_one_made_by_hand_differs_in_what_nobody_gave_it(engine: Inspects) -> None:
    assert compared(engine, engine.hand) == [
        "command",
        "devices",
        "volumes",
        "env.VLLM_USE_V1",
        "env.XMLIR_D_XPU_L3_SIZE",
        "caps",
        "security",
        "ulimits",
        "restart",
        "init",
        "stop_timeout",
        "log",
        "labels",
    ]


# Row C19: the same container in other words is no drift; one device really changed is exactly one field.


def test_row_C19_device_by_symlink(engine: Inspects) -> None:
    for number, device in enumerate(engine.made["HostConfig"]["Devices"]):
        device["PathOnHost"] = f"/dev/kunlun/card{number}"
    text = "".join(f"/dev/kunlun/card{number}\t{node}\n" for number, node in enumerate(NODES))
    assert drift(SPEC, engine.made, links=parse_links(text)) == []
    assert keys(drift(SPEC, engine.made)) == ["devices"]


def test_row_C19_device_by_path_link(engine: Inspects) -> None:
    engine.made["HostConfig"]["Devices"][3]["PathOnHost"] = "/dev/by-path/pci-9a.0"
    links = parse_links("/dev//by-path/pci-9a.0\t/dev/xpu3\n/dev/xpu0\t/dev/xpu0\n/dev/gone\t\n")
    assert drift(SPEC, engine.made, links=links) == []


def test_row_C19_settings_that_name_the_link(engine: Inspects) -> None:
    linked = replace(SPEC, devices=tuple((f"/dev/kunlun{node[4:]}", node) for node in NODES))
    links = {f"/dev/kunlun{node[4:]}": node for node in NODES}
    assert drift(linked, of_another_spec(engine.made), links=links) == []


def test_row_C19_other_order(engine: Inspects) -> None:
    host = engine.made["HostConfig"]
    for key in ("Devices", "Binds", "Ulimits"):
        assert len(host[key]) > 1
        host[key].reverse()
    engine.made["Config"]["Env"].reverse()
    assert drift(SPEC, engine.made) == []


def test_row_C19_numbers_of_log_options_as_text(engine: Inspects) -> None:
    options = engine.made["HostConfig"]["LogConfig"]["Config"]
    assert options["max-file"] == "3"
    options["max-file"] = 3
    assert drift(SPEC, engine.made) == []


def test_row_C19_environment_as_list_and_as_map_with_that_of_the_image(engine: Inspects) -> None:
    given = engine.made["Config"]["Env"]
    assert any(item.startswith("PATH=") for item in given)
    for label in (engine.made, of_another_spec(engine.made)):
        label["Config"]["Env"] = dict(item.split("=", 1) for item in given)
        assert drift(SPEC, label, image=engine.image) == []


@pytest.mark.parametrize("text", ["32g", "32G", "32768m", "33554432k", "34359738368", "32GiB"])
def test_row_C19_size_as_text_and_in_bytes(engine: Inspects, text: str) -> None:
    assert engine.made["HostConfig"]["ShmSize"] == 34359738368
    assert drift(replace(SPEC, shm=size_in_bytes(text)), engine.made) == []


def test_row_C19_moved_tag(engine: Inspects) -> None:
    moved = replace(engine.image, id="sha256:" + "9" * 64)
    found = drift(SPEC, engine.made, image=engine.image, wanted_image=moved)
    assert [(item.key, item.want, item.have) for item in found] == [("image_id", moved.id, engine.image.id)]


def test_of_lists_the_difference_is_told_and_not_their_beginnings(engine: Inspects) -> None:
    wanted = tuple(f"/a/rather/long/name/of/a/folder{n}:/there/under/the/same/name{n}" for n in range(9))
    engine.made["HostConfig"]["Binds"] += [*wanted, "/x:/y"]
    spec = replace(SPEC, volumes=(*SPEC.volumes, *wanted, "/var/tmp:/vt"))
    (found,) = (item for item in drift(spec, engine.made) if item.key == "volumes")
    assert str(found) == "volumes: lacks /var/tmp:/vt; has besides /x:/y"
    assert set(wanted) < set(found.as_json()["have"]), "which JSON has all the same"
    only = Drift("caps", ["A", "B"], ["A"])
    assert str(only) == "caps: lacks B"


def test_row_C19_one_device_really_changed(engine: Inspects) -> None:
    engine.made["HostConfig"]["Devices"][3]["PathOnHost"] = "/dev/xpu7"
    found = drift(SPEC, engine.made, image=engine.image, wanted_image=engine.image)
    assert keys(found) == ["devices"]
    assert "/dev/xpu3:/dev/xpu3" in found[0].want
    assert "/dev/xpu7:/dev/xpu3" in found[0].have
    assert "/dev/xpu7:/dev/xpu3" in str(found[0])


@given(data=st.data(), version=st.sampled_from(VERSIONS), other=st.booleans())
@settings(max_examples=100, deadline=None)
def test_row_C19_no_spelling_is_drift(data: st.DataObject, version: str, other: bool) -> None:
    engine = LOADED[version]
    made = of_another_spec(engine.made) if other else engine.made
    raw, links = data.draw(respelled(made))
    assert compared(engine, raw, links) == []


def host(**values: Any) -> Change:
    return lambda raw: raw["HostConfig"].update(values)


def config(**values: Any) -> Change:
    return lambda raw: raw["Config"].update(values)


def device(**values: Any) -> Change:
    return lambda raw: raw["HostConfig"]["Devices"][2].update(values)


def bind(old: str, *new: str) -> Change:
    """Instead of one bind others, in both places where an engine tells of it."""

    def change(raw: dict[str, Any]) -> None:
        inside = old.split(":")[1]
        raw["Mounts"] = [mount for mount in raw["Mounts"] if mount["Destination"] != inside]
        raw["HostConfig"]["Binds"].remove(old)
        raw["HostConfig"]["Binds"] += new

    return change


def env(drop: str, *add: str) -> Change:
    def change(raw: dict[str, Any]) -> None:
        kept = [item for item in raw["Config"]["Env"] if not item.startswith(f"{drop}=")]
        raw["Config"]["Env"] = [*kept, *add]

    return change


def image(raw: dict[str, Any]) -> None:
    raw["Config"]["Image"], raw["Image"] = "vllm-kunlun:0", "sha256:" + "0" * 64


def no_label(raw: dict[str, Any]) -> None:
    del raw["Config"]["Labels"][MANAGED_LABEL]


#: What is less than wanted, or something else: drift whatever the label says.
CHANGES: list[tuple[str, Change]] = [
    ("image", image),
    ("image_id", lambda raw: raw.update(Image="sha256:" + "0" * 64)),
    ("command", config(Cmd=["/var/lib/klops/agent/current", "hold"])),
    ("command", config(Entrypoint=["python3.10"])),
    ("devices", device(PathOnHost="/dev/xpu5")),
    ("devices", device(PathInContainer="/dev/xpu9")),
    ("devices", device(CgroupPermissions="r")),
    ("devices", lambda raw: raw["HostConfig"]["Devices"].pop()),
    ("devices", host(Devices=None)),
    ("volumes", bind("/data/models:/models:ro", "/data/other:/models:ro")),
    ("volumes", bind("/data/models:/models:ro", "/data/models:/models")),
    ("volumes", bind("/data/models:/models:ro", "/data/models:/models2:ro")),
    ("volumes", bind("/data/models:/models:ro")),
    ("env.VLLM_USE_V1", env("VLLM_USE_V1", "VLLM_USE_V1=0")),
    ("env.VLLM_USE_V1", env("VLLM_USE_V1")),
    ("env.VLLM_USE_V1", env("VLLM_USE_V1", "VLLM_USE_V1")),
    ("shm", host(ShmSize=64 * 1024**2)),
    ("shm", host(ShmSize=64 * 1024**2, Tmpfs={"/dev/shm": "size=8g"})),
    ("shm", host(Tmpfs={"/dev/shm": ""})),
    ("shm", host(IpcMode="host", SecurityOpt=["seccomp=unconfined", "label=disable"])),
    ("caps", host(CapAdd=None)),
    ("caps", host(CapAdd=["NET_ADMIN"])),
    ("security", host(SecurityOpt=None)),
    ("security", host(SecurityOpt=['seccomp={"defaultAction": "SCMP_ACT_ERRNO"}'])),
    ("security", host(Privileged=True, SecurityOpt=["label=disable"], CapAdd=None, Devices=[])),
    ("ulimits", host(Ulimits=None)),
    ("ulimits", host(Ulimits=[{"Name": n, "Hard": 2048, "Soft": 0} for n in ("core", "nofile")])),
    ("network", host(NetworkMode="bridge")),
    ("restart", host(RestartPolicy={"Name": "no", "MaximumRetryCount": 0})),
    ("restart", host(RestartPolicy={"Name": "", "MaximumRetryCount": 0})),
    ("init", host(Init=None)),
    ("init", lambda raw: raw["HostConfig"].pop("Init")),
    ("stop_timeout", config(StopTimeout=10)),
    ("stop_timeout", lambda raw: raw["Config"].pop("StopTimeout")),
    ("log", host(LogConfig={"Type": "json-file", "Config": {"max-file": "3"}})),
    ("log", host(LogConfig={"Type": "json-file", "Config": {"max-file": "3", "max-size": "1g"}})),
    ("log", host(LogConfig={"Type": "journald", "Config": {}})),
    ("labels", no_label),
]
#: What is more than wanted: drift unless the container was made from this very specification.
EXTRAS: list[tuple[str, Change]] = [
    ("devices", lambda raw: raw["HostConfig"]["Devices"].append({"PathOnHost": "/dev/xpu7"})),
    ("devices", host(DeviceCgroupRules=["c 195:* rwm"])),
    ("devices", host(DeviceRequests=[{"Driver": "", "Count": -1, "DeviceIDs": None}])),
    ("volumes", lambda raw: raw["HostConfig"]["Binds"].append("/home:/home")),
    ("volumes", lambda raw: raw["HostConfig"]["Binds"].append("named:/n")),
    ("env.HTTP_PROXY", env("none", "HTTP_PROXY=http://127.0.0.1:1")),
    ("env.XPU_HOME", env("XPU_HOME", "XPU_HOME=/elsewhere")),
    ("env.XPU_HOME", env("XPU_HOME", "XPU_HOME")),
    ("caps", host(CapAdd=["SYS_PTRACE", "NET_ADMIN"])),
    ("caps", host(CapAdd=["all"])),
    ("caps", host(CapDrop=["MKNOD"])),
    ("security", host(SecurityOpt=["seccomp=unconfined", "no-new-privileges"])),
    ("ulimits", lambda raw: raw["HostConfig"]["Ulimits"].append({"Name": "memlock", "Hard": -1, "Soft": -1})),
    ("runtime", host(Runtime="xpu")),
]


@given(data=st.data(), version=st.sampled_from(VERSIONS), other=st.booleans())
@pytest.mark.parametrize(("key", "change"), CHANGES)
@settings(max_examples=5, deadline=None)
def test_a_change_is_exactly_its_key(
    key: str, change: Change, data: st.DataObject, version: str, other: bool
) -> None:
    engine = LOADED[version]
    raw = of_another_spec(engine.made) if other else copy.deepcopy(engine.made)
    change(raw)
    raw, links = data.draw(respelled(raw))
    assert compared(engine, raw, links) == [key]


@pytest.mark.parametrize(("key", "change"), EXTRAS)
def test_an_addition_is_drift_unless_the_engine_made_it(engine: Inspects, key: str, change: Change) -> None:
    change(engine.made)
    assert compared(engine, engine.made) == []
    assert compared(engine, of_another_spec(engine.made)) == [key]


@pytest.mark.parametrize(("key", "change"), EXTRAS)
def test_an_addition_of_the_engine_stays_one_when_something_else_is_wanted(
    engine: Inspects, key: str, change: Change
) -> None:
    """Limits of daemon.json are no drift only because the size of /dev/shm was changed."""
    change(engine.made)
    engine.made["Config"]["Labels"] |= dict(replace(SPEC, shm=1).labels)
    assert compared(engine, engine.made) == []
    engine.made["Config"]["Labels"] |= dict(asked_for_more(key).labels)
    assert compared(engine, engine.made) == [key]


def asked_for_more(key: str) -> ContainerSpec:
    """What the container was made from if that named one thing more under ``key``."""
    if key == "runtime":
        return replace(SPEC, runtime="xpu")
    field = key.partition(".")[0]
    more = "x" if field in ("volumes", "caps", "security") else ("x", "x")
    changed: dict[str, Any] = {field: (*getattr(SPEC, field), more)}
    return replace(SPEC, **changed)


def test_what_an_unknown_image_may_have_set_is_no_drift(engine: Inspects) -> None:
    engine.made["Config"]["Env"].append("SOMETHING=1")
    assert drift(SPEC, of_another_spec(engine.made)) == []


def test_a_variable_that_is_no_longer_set_falls_back_to_that_of_the_image(engine: Inspects) -> None:
    env("XPU_HOME", "XPU_HOME=/elsewhere")(engine.made)
    (found,) = drift(SPEC, of_another_spec(engine.made), image=engine.image)
    assert (found.want, found.have) == ("(that of the image)", HIDDEN)


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "VLLM_API_KEY"])
def test_a_secret_of_somebody_else_is_shown_by_its_name_alone(engine: Inspects, name: str) -> None:
    engine.made["Config"]["Env"].append(f"{name}=sentinel")
    raw = of_another_spec(engine.made)
    named = replace(SPEC, env=(*SPEC.env, (name, "mine")))
    for spec, want in ((SPEC, None), (named, "mine")):
        (found,) = drift(spec, raw, image=engine.image)
        assert (found.key, found.want, found.have) == (f"env.{name}", want, HIDDEN)


def test_of_a_variable_that_the_settings_do_not_name_no_value_is_shown(engine: Inspects) -> None:
    engine.made["Config"]["Env"].append("HARMLESS=sentinel")
    (found,) = drift(SPEC, of_another_spec(engine.made), image=engine.image)
    assert (found.key, found.have) == ("env.HARMLESS", HIDDEN)


def test_a_runtime_that_is_wanted(engine: Inspects) -> None:
    assert keys(drift(replace(SPEC, runtime="xpu"), engine.made)) == ["runtime"]
    assert drift(replace(SPEC, runtime="runc"), engine.made) == []
    engine.made["HostConfig"]["Runtime"] = "xpu"
    assert drift(replace(SPEC, runtime="xpu"), engine.made) == []


def test_the_default_runtime_of_an_engine_is_no_drift_of_a_container_made_by_hand(engine: Inspects) -> None:
    engine.hand["HostConfig"]["Runtime"] = "xpu"
    assert "runtime" not in keys(drift(SPEC, engine.hand))


def test_the_same_image_under_another_name_is_no_drift(engine: Inspects) -> None:
    renamed = replace(SPEC, image="registry:5000/vllm-kunlun:1")
    assert drift(renamed, engine.made, wanted_image=engine.image) == []
    assert keys(drift(renamed, engine.made)) == ["image"]


def test_a_variable_taken_away_is_not_one_that_is_empty(engine: Inspects) -> None:
    empty = replace(SPEC, env=(*SPEC.env, ("EMPTY", "")))
    engine.made["Config"]["Env"].append("EMPTY=")
    assert drift(empty, engine.made) == []
    engine.made["Config"]["Env"][-1] = "EMPTY"
    assert [(item.key, item.want, item.have) for item in drift(empty, engine.made)] == [
        ("env.EMPTY", "", None)
    ]


@pytest.mark.parametrize("policy", [None, {}, {"Name": ""}, {"Name": "no"}])
def test_no_restart_policy_is_called_no(engine: Inspects, policy: dict[str, Any] | None) -> None:
    engine.made["HostConfig"]["RestartPolicy"] = policy
    assert [str(item) for item in drift(SPEC, engine.made)] == ["restart: have no, want always"]


def test_dockers_own_stop_timeout_needs_no_saying(engine: Inspects) -> None:
    del engine.made["Config"]["StopTimeout"]
    assert drift(replace(SPEC, stop_timeout=10), of_another_spec(engine.made)) == []
    (found,) = drift(SPEC, engine.made)
    assert (found.want, found.have) == (120, 10)


def test_a_folder_of_nodes_given_as_one_device(engine: Inspects) -> None:
    engine.made["HostConfig"]["Devices"] = [{"PathOnHost": "/dev/cards", "PathInContainer": "/dev/"}]
    spec = replace(SPEC, devices=tuple((f"/dev/cards/{node[5:]}", node) for node in NODES))
    assert drift(spec, of_another_spec(engine.made)) == []
    assert keys(drift(SPEC, engine.made)) == ["devices"]


def test_a_mount_that_only_the_engine_tells_of(engine: Inspects) -> None:
    mount = {
        "Type": "bind",
        "Source": "/opt/shared",
        "Destination": "/shared",
        "RW": False,
        "Propagation": "",
    }
    engine.made["Mounts"].append(mount)  # as --volumes-from leaves it
    spec = replace(SPEC, volumes=(*SPEC.volumes, "/opt/shared:/shared:ro"))
    assert drift(spec, of_another_spec(engine.made)) == []
    assert keys(drift(SPEC, of_another_spec(engine.made))) == ["volumes"]


def test_half_an_inspect_is_told_as_drift_not_as_an_error() -> None:
    assert {"command", "devices", "network"} <= set(keys(drift(SPEC, {})))


def test_every_key_is_real_or_only_weaker(engine: Inspects) -> None:
    found = drift(SPEC, {}) + drift(SPEC, engine.hand)
    assert REAL.isdisjoint(WEAKER)
    assert {item.key for item in found if not item.real} <= WEAKER
    assert {item.key.partition(".")[0] for item in found if item.real} <= REAL
    assert {key.partition(".")[0] for key, _ in CHANGES + EXTRAS} == REAL | WEAKER


def test_drift_is_json(engine: Inspects) -> None:
    for item in drift(SPEC, engine.hand, image=engine.image):
        assert json.loads(json.dumps(item.as_json())) == item.as_json()
