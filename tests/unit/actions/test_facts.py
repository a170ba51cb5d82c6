"""Facts: the reading script under the shells that are here, its parsing, and the module ``setup``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from klops.actions.base import Seen, View
from klops.actions.facts import hostfacts
from klops.actions.facts import network as hostfacts_network
from klops.actions.facts.distribution import services
from klops.actions.facts.setup import GatherFacts, Setup, SetupParams
from klops.actions.facts.virtual import virtualization
from klops.commands import factscript
from klops.commands.factscript import MARK
from klops.errors import TaskFailed
from klops.remote.base import Replies

SHELLS = [
    shell
    for shell in (("sh",), ("dash",), ("busybox", "sh"), ("bash", "--posix"))
    if shutil.which(shell[0]) and sys.platform == "linux"
]
#: facts that move, or that Ansible has from elsewhere
DIFFERENT = {
    "ansible_date_time": "it passes",
    "ansible_env": "each process has its own",
    "ansible_fqdn": "hostname -f, in place of a look-up of the address's name",
    "ansible_domain": "the same",
    "ansible_interfaces": "here in order",
    "ansible_loadavg": "it moves; here with the two digits that /proc has",
    "ansible_memfree_mb": "it moves",
    "ansible_memory_mb": "it moves",
    "ansible_mounts": "free space moves; compared by itself",
    "ansible_selinux": "Ansible asks a Python library",
    "ansible_swapfree_mb": "it moves",
    "ansible_uptime_seconds": "it passes",
    "ansible_virtualization_tech_guest": "a set there, in any order",
    "ansible_virtualization_tech_host": "the same",
    "ansible_local": "there are no local facts",
}
#: what isn't read here
LACKING = {
    "ansible_device_links", "ansible_devices", "ansible_fibre_channel_wwn", "ansible_form_factor",
    "ansible_hostnqn", "ansible_iscsi_iqn", "ansible_locally_reachable_ips", "ansible_lvm", "ansible_python",
    "ansible_python_version", "ansible_selinux_python_present", "ansible_system_capabilities",
    "ansible_system_capabilities_enforced", "gather_subset", "module_setup",
}  # fmt: skip


def replies(text: str) -> Replies:
    return cast(Replies, {hostfacts.KEY: SimpleNamespace(text=text)})


def said_by(shell: tuple[str, ...], **environment: str) -> str:
    run = subprocess.run(
        [*shell, "-c", hostfacts.READS[0].script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=True,
        timeout=60,
    )
    assert run.stderr == ""
    return run.stdout


@pytest.fixture(params=SHELLS, ids=" ".join)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    return hostfacts.facts(replies(said_by(request.param, KLOPS_TEST="a\nb=c", LANG="zh_CN.UTF-8")))


def test_what_this_host_is(found: dict[str, Any]) -> None:
    assert found["system"] == "Linux"
    assert found["nodename"] == os.uname().nodename
    assert found["kernel"] == os.uname().release
    assert found["kernel_version"] == os.uname().version
    assert found["architecture"] == os.uname().machine
    assert found["userspace_bits"] == ("64" if sys.maxsize > 2**32 else "32")
    assert found["user_uid"] == os.getuid()
    assert found["user_dir"] == os.path.expanduser(f"~{found['user_id']}")  # noqa: PTH111 - a user's by name
    assert found["env"]["KLOPS_TEST"] == "a\nb=c"
    assert found["processor_nproc"] == len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024**2
    assert abs(found["memtotal_mb"] - total) <= 1
    assert "lo" in found["interfaces"]
    assert found["lo"]["ipv4"]["address"] == "127.0.0.1"


def test_every_fact_is_one_that_tasks_may_name(found: dict[str, Any]) -> None:
    names = {f"ansible_{name}" for name in found}
    assert names - hostfacts.INJECTED <= {f"ansible_{name}" for name in found["interfaces"]}
    assert {"ansible_facts", "ansible_default_ipv4", "ansible_os_family"} <= hostfacts.INJECTED


def test_as_ansible_has_them() -> None:
    pytest.importorskip("ansible", reason="ansible is not here to compare with")
    before = _mounts()
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "ansible",
            "adhoc",
            "localhost",
            "-i",
            "localhost,",
            "-c",
            "local",
            "-m",
            "setup",
        ],
        env={**os.environ, "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    theirs = json.loads(run.stdout[run.stdout.index("=> ") + 3 :])["ansible_facts"]
    ours = hostfacts.injected(hostfacts.facts(replies(said_by(("sh",)))))
    compared = set(theirs) - set(DIFFERENT) - LACKING
    print(f"compared: {', '.join(sorted(compared))}")
    print(f"not compared: {DIFFERENT}; not there: {', '.join(sorted(LACKING))}")
    assert {k: (ours.get(k), theirs[k]) for k in compared if ours.get(k) != theirs[k]} == {}
    assert set(ours) - set(theirs) == set()
    assert len(compared) > 60
    assert set(ours["ansible_date_time"]) == set(theirs["ansible_date_time"])
    assert sorted(ours["ansible_interfaces"]) == sorted(theirs["ansible_interfaces"])
    # what other programs mount and take off meanwhile is nobody's to compare
    found = {mount["mount"]: mount for mount in _mounts(theirs)}
    lasting = [mount for mount in before if mount in _mounts(ours) and mount["mount"] in found]
    assert lasting
    assert lasting == [found[mount["mount"]] for mount in lasting]


def _mounts(facts: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """What of each mount doesn't change from one look to the next; of the host as it is now."""
    found = hostfacts.injected(hostfacts.facts(replies(said_by(("sh",))))) if facts is None else facts
    fixed = ("mount", "device", "fstype", "options", "uuid", "size_total", "block_size", "block_total")
    keys = (*fixed, "inode_total", "dump", "passno")
    return [{key: mount.get(key) for key in keys} for mount in found["ansible_mounts"]]


def test_without_the_programs_that_few_userlands_have(tmp_path: Path) -> None:
    if not SHELLS:
        pytest.skip("no POSIX shell of Linux here")
    for name in [
        "cat",
        "date",
        "grep",
        "head",
        "hostname",
        "id",
        "ls",
        "od",
        "sed",
        "sh",
        "stat",
        "tr",
        "uname",
    ]:
        there = shutil.which(name)
        if there:
            (tmp_path / name).symlink_to(there)
    with_all = hostfacts.facts(replies(said_by(("sh",))))
    shell = (str(tmp_path / "sh"),)
    found = hostfacts.facts(replies(said_by(shell, PATH=str(tmp_path))))
    for name in (
        "interfaces",
        "lo",
        "user_id",
        "user_dir",
        "processor_nproc",
        "userspace_bits",
        "distribution",
    ):
        assert found[name] == with_all[name]
    # an address without ip's labels
    assert set(found["all_ipv4_addresses"]) == set(with_all["all_ipv4_addresses"])
    assert set(found["all_ipv6_addresses"]) == set(with_all["all_ipv6_addresses"])
    assert found["default_ipv4"] == with_all["default_ipv4"]


def test_with_busybox_alone(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if not busybox or not SHELLS:
        pytest.skip("no busybox here")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        (tmp_path / name).symlink_to(busybox)
    found = hostfacts.facts(replies(said_by((str(tmp_path / "sh"),), PATH=str(tmp_path))))
    ours = hostfacts.facts(replies(said_by(("sh",))))
    moving = {name.removeprefix("ansible_") for name in DIFFERENT}
    if shutil.which("systemctl"):
        moving.add("service_mgr")  # it is looked for on PATH
    assert {name for name in found.keys() | ours.keys() if found.get(name) != ours.get(name)} <= moving
    keys = ("mount", "device", "size_total", "block_size", "inode_total")
    mounts = [{m["mount"]: tuple(m.get(key) for key in keys) for m in one["mounts"]} for one in (found, ours)]
    lasting = mounts[0].keys() & mounts[1].keys()
    assert lasting
    assert {path: mounts[0][path] for path in lasting} == {path: mounts[1][path] for path in lasting}


def test_mounts_with_spaces_in_their_names() -> None:
    sizes = "4096 4096 100 40 10 4 /data disk"
    (mount,) = system(sizes=sizes)["mounts"]
    assert (mount["mount"], mount["size_total"], mount["size_available"]) == ("/data disk", 409600, 163840)
    assert (mount["block_used"], mount["inode_used"]) == (60, 6)


# -- hosts that aren't this one ------------------------------------------------------------------------------


def system(**sections: str) -> dict[str, Any]:
    lines = "\n".join(f"{path}:{line}" for path, text in FILES.items() for line in text.splitlines())
    text = "".join(
        f"\n{MARK}{name}\n{said}\n" for name, said in {"files": lines, **sections, "end": ""}.items()
    )
    return hostfacts.facts(replies(text))


FILES = {
    "/etc/redhat-release": "CentOS Linux release 7.9.2009 (Core)",
    "/proc/1/comm": "systemd",
    "/sys/class/dmi/id/sys_vendor": "Inspur",
    "/sys/class/dmi/id/product_name": "NF5688M7",
    "/proc/mounts": r"/dev/mapper/vg-data /data\040disk xfs rw,noatime 0 0",
}
MOUNTED = r"""/dev/sda1 / ext4 rw 0 0
/dev/sda1 /data\040disk ext4 rw,noatime 0 0
/dev/sda1 /mnt ext4 rw 0 0
/dev/sdb1 /mnt xfs rw 0 0"""
MOUNTINFO = r"""1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:1 /var/lib /data\040disk rw - ext4 /dev/sda1 rw,noatime
3 1 8:1 / /mnt rw - ext4 /dev/sda1 rw
4 3 8:17 / /mnt rw - xfs /dev/sdb1 rw"""


def test_a_folder_of_a_file_system_is_a_bind_mount_and_the_last_of_a_path_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FILES, "/proc/mounts", MOUNTED)
    monkeypatch.setitem(FILES, "/proc/self/mountinfo", MOUNTINFO)
    found = system()["mounts"]
    assert [(mount["mount"], mount["device"], mount["options"]) for mount in found] == [
        ("/", "/dev/sda1", "rw"),
        ("/data disk", "/dev/sda1", "rw,noatime,bind"),
        ("/mnt", "/dev/sdb1", "rw"),
    ]


CENTOS = 'NAME="CentOS Linux"\nID="centos"\nID_LIKE="rhel fedora"\nVERSION_ID="7"\nVERSION="7 (Core)"'


def test_another_distribution() -> None:
    found = system(os=CENTOS, paths="/usr/bin/yum\n/dev/kvm", uname="Linux gpu-1.lab 5.10.0 x86_64\n#1 SMP")
    wanted = {
        "distribution": "CentOS", "os_family": "RedHat", "distribution_version": "7.9.2009",
        "distribution_major_version": "7", "distribution_release": "Core", "pkg_mgr": "dnf",
        "service_mgr": "systemd", "hostname": "gpu-1", "domain": "lab", "virtualization_type": "kvm",
        "virtualization_role": "host", "system_vendor": "Inspur", "product_name": "NF5688M7",
        "bios_vendor": "NA",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert found["mounts"][0]["mount"] == "/data disk"


@pytest.mark.parametrize(
    ("release", "name", "family"),
    [
        ("ID=ubuntu\nVERSION_ID=22.04", "Ubuntu", "Debian"),
        ("ID=openEuler\nVERSION_ID=22.03", "openEuler", "RedHat"),
        ('ID=kylin\nNAME="Kylin Linux Advanced Server"', "Kylin Linux Advanced Server", "RedHat"),
        ('ID=rocky\nID_LIKE="rhel centos fedora"', "Rocky", "RedHat"),
        ("ID=alpine\nVERSION_ID=3.20.1", "Alpine", "Alpine"),
        ('ID=own\nNAME="Our Linux"\nID_LIKE=debian', "Our Linux", "Debian"),
        ("", "Linux", "Linux"),
    ],
)
def test_distributions(release: str, name: str, family: str) -> None:
    found = system(os=release)
    assert (found["distribution"], found["os_family"]) == (name, family)


def test_processors_of_two_sockets() -> None:
    cpu = "\n".join(
        f"processor\t: {n}\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: {n // 4}\n"
        f"siblings\t: 4\ncore id\t\t: {n % 2}\ncpu cores\t: 2"
        for n in range(8)
    )
    found = system(cpu=cpu, nproc="8")
    names = ("count", "cores", "threads_per_core", "vcpus", "nproc")
    assert [found[f"processor_{name}"] for name in names] == [2, 2, 2, 8, 8]
    assert found["processor"][:3] == ["0", "GenuineIntel", "Xeon"]


IFCONFIG = """eth0      Link encap:Ethernet  HWaddr 02:42:AC:11:00:02
          inet addr:172.17.0.2  Bcast:172.17.255.255  Mask:255.255.0.0
          inet6 addr: fe80::1/64 Scope:Link

lo        Link encap:Local Loopback
          inet addr:127.0.0.1  Mask:255.0.0.0
"""
IP = """2: bond0: <BROADCAST,UP> mtu 1500
    inet 10.0.0.5/24 brd 10.0.0.255 scope global bond0
    inet 10.0.1.5/24 brd 10.0.1.255 scope global secondary bond0:1
3: tun0: <POINTOPOINT> mtu 1400
    inet 10.8.0.2 peer 10.8.0.1/32 scope global tun0
4: veth1@if9: <UP> mtu 1500
    inet6 fe80::2/64 scope link
"""


def test_addresses_of_other_programs() -> None:
    found = hostfacts_network.facts({"address": IFCONFIG}, {})
    assert found["eth0"]["ipv4"] == {
        "address": "172.17.0.2", "broadcast": "172.17.255.255", "netmask": "255.255.0.0",
        "network": "172.17.0.0", "prefix": "16",
    }  # fmt: skip
    assert found["eth0"]["ipv6"] == [{"address": "fe80::1", "prefix": "64", "scope": "link"}]
    assert found["all_ipv4_addresses"] == ["172.17.0.2"]
    found = hostfacts_network.facts(
        {"address": IP, "route4": "8.8.8.8 via 10.0.0.1 dev bond0 src 10.0.0.5"}, {}
    )
    assert found["bond0"]["ipv4"]["address"] == "10.0.0.5"
    assert found["bond0_1"]["ipv4_secondaries"][0]["address"] == "10.0.1.5"
    assert found["tun0"]["ipv4"]["prefix"] == "32"
    assert found["veth1"]["ipv6"][0]["scope"] == "link"
    assert found["default_ipv4"]["gateway"] == "10.0.0.1"
    assert found["default_ipv4"]["prefix"] == "24"


@pytest.mark.parametrize(
    ("sections", "kind", "role"),
    [
        ({"container": "container=podman"}, "podman", "guest"),
        ({"paths": "/.dockerenv\n/dev/kvm"}, "docker", "guest"),
        ({"paths": "/dev/kvm"}, "kvm", "host"),
        ({"paths": ""}, "NA", "NA"),
        ({"cpu": "model name : QEMU Virtual CPU version 2.5"}, "kvm", "guest"),
    ],
)
def test_virtualization(sections: dict[str, str], kind: str, role: str) -> None:
    found = virtualization(sections, {}, frozenset(sections.get("paths", "").splitlines()))
    assert (found["virtualization_type"], found["virtualization_role"]) == (kind, role)


@pytest.mark.parametrize(
    ("first", "paths", "name"),
    [
        ("systemd", (), "systemd"),
        ("sh", (), "service"),
        ("init", ("/usr/bin/systemctl", "/run/systemd/system"), "systemd"),
        ("init", ("/sbin/openrc", "/etc/init.d"), "openrc"),
        ("init", ("/etc/init.d",), "sysvinit"),
        ("runit-init", (), "runit"),
    ],
)
def test_service_managers(first: str, paths: tuple[str, ...], name: str) -> None:
    assert services(first, frozenset(paths), "") == name


def test_a_host_that_says_nothing() -> None:
    with pytest.raises(TaskFailed, match="did not get through"):
        hostfacts.facts(replies("sh: not found"))


def test_the_script_is_small_enough_to_be_sent_with_others() -> None:
    assert len(factscript.SCRIPT) < 5000


# -- setup ---------------------------------------------------------------------------------------------------


def planned(**given: Any) -> dict[str, Any]:
    view = cast(View, None)
    seen = Seen(replies("".join(f"\n{MARK}{name}\n{said}\n" for name, said in SAID.items())))
    plan = Setup().plan(SetupParams.model_validate(given), view, seen)
    assert plan.steps == ()
    found: dict[str, Any] = plan.result["ansible_facts"]
    return found


SAID = {
    "os": CENTOS,
    "uname": "Linux gpu-1 5.10.0 x86_64\n#1 SMP",
    "files": "/proc/meminfo:MemTotal: 2048 kB\n/sys/class/net/eth0/type:1",
    "paths": "/sys/class/net/eth0",
    "env": "A=b",
    "end": "",
}


def test_setup_gives_facts_as_variables() -> None:
    found = planned()
    assert found["ansible_hostname"] == "gpu-1"
    assert found["ansible_eth0"]["device"] == "eth0"
    assert all(name.startswith("ansible_") for name in found)
    assert GatherFacts().probe(SetupParams(), cast(View, None)).reads == hostfacts.READS


def test_setup_filters() -> None:
    assert set(planned(filter="ansible_distribution_v*,kernel")) == {
        "ansible_distribution_version",
        "ansible_kernel",
    }
    assert "ansible_mounts" not in planned(gather_subset="!hardware")
    assert "ansible_eth0" in planned(gather_subset=["!hardware"])
    assert {"ansible_eth0", "ansible_mounts"} & set(planned(gather_subset=["!all"])) == set()
    assert "ansible_kernel" in planned(gather_subset=["!all"])
    assert planned(gather_subset=["!all", "!min"]) == {}
    assert "ansible_eth0" in planned(gather_subset=["network"])
    assert set(planned(gather_subset=["min", "virtual"])) >= {"ansible_virtualization_type", "ansible_kernel"}
    with pytest.raises(ValueError, match="is none of all, min"):
        SetupParams.model_validate({"gather_subset": ["facter"]})
