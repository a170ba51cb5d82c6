"""Faults of cards in collectives: each does what its spec says, to the card it names, and to no other."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.sim import cards, rankfaults, rankside, vllms
from klops.sim import vllm as standin
from klops.sim.layout import Rehearsal, RehearsalHost, inventory_text
from klops.sim.torch_real import sitecustomize
from tests.shortpaths import short_folder
from tests.sim.ranks import MIB, ROOT, SOON, Host, host
from tests.waiting import until

__all__ = ["host"]


def healthy(answers: list[Any]) -> bool:
    return [told["wrong"] for told in answers] == [[] for _ in answers]


def silent_then_killed(host: Host, indexes: tuple[int, ...], stuck: set[int], word: str) -> None:
    """A group of these: the stuck ones never answer and ignore TERM, the others say that they waited."""
    with host.ranks(*indexes) as ranks:
        host.form(ranks, timeout=SOON)
        for index, rank in zip(indexes, ranks, strict=True):
            if index not in stuck:
                told = rank.answer()
                assert told is not None
                assert word in told["error"]
        for index, rank in zip(indexes, ranks, strict=True):
            if index in stuck:
                rank.process.send_signal(signal.SIGTERM)
                assert rank.answer(SOON) is None
                assert rank.process.poll() is None
                rank.process.kill()
                assert rank.process.wait() == -signal.SIGKILL


@ROOT
def test_hang_init(host: Host) -> None:
    host.break_("card=3:hang-init")
    silent_then_killed(host, (1, 3, 5), {3}, "wait timeout after 500ms")
    with host.ranks(1, 5) as ranks:
        assert healthy(host.grouped(ranks))


@ROOT
def test_hang_in_a_collective(host: Host) -> None:
    host.break_("card=5:hang-collective")
    silent_then_killed(host, (5, 6), {5}, "Timed out waiting 500ms")
    with host.ranks(5, 6) as ranks:
        # what only connects goes through, and the card alone passes
        assert healthy(host.grouped(ranks, size=4))
        assert len(ranks[0].do("single", size=MIB, rounds=2)) == 2


@ROOT
def test_a_pair_hangs(host: Host) -> None:
    host.break_("pair=3,2:hang")
    silent_then_killed(host, (1, 2, 3), {2, 3}, "Timed out waiting 500ms")
    with host.ranks(1, 2, 4) as ranks:
        assert healthy(host.grouped(ranks))


@ROOT
def test_wrong_sums_in_some_rounds_from_a_size_on(host: Host) -> None:
    host.break_("card=2:wrong:3/10@1MiB")
    with host.ranks(0, 2, 4) as ranks:
        below = host.grouped(ranks, size=MIB - 4, rounds=10)
        first = host.grouped(ranks, size=MIB, rounds=12)
        again = host.grouped(ranks[:2], size=2 * MIB, rounds=10)
        without = host.grouped([ranks[0], ranks[2]], rounds=10)
    assert healthy(below)
    assert [told["wrong"] for told in first] == [[], [2, 5, 8, 12], []]
    assert [told["wrong"] for told in again] == [[], [2, 5, 8]]
    assert healthy(without)


@ROOT
@pytest.mark.parametrize(
    ("spec", "bad", "good"),
    [
        ("pair=2,6:error", (1, 2, 6), (2, 3, 7)),
        ("group=3:error", (1, 2, 6), (1, 2, 3, 6)),
        ("all-pairs:addr_window", (4, 5), (4,)),
    ],
)
def test_a_group_that_can_not_be_formed_says_so_to_all_at_once(
    host: Host, spec: str, bad: tuple[int, ...], good: tuple[int, ...]
) -> None:
    host.break_(spec)
    with host.ranks(*bad) as ranks:
        errors = host.grouped(ranks)
        assert len(set(errors)) == 1
        log = ranks[0].log.read_text()
    if "addr_window" in spec:
        assert errors[0].startswith("ValueError('[INVALID PARAMETER]: error code= 1(at ")
        assert log.splitlines() == [
            "[XCCL][util.cpp:346] dev 0 addr_window not properly set",
            "[XCCL][init.cpp:1227] host 127.0.0.1 addr_window check failed",
        ]
    else:
        assert errors[0].startswith("RuntimeError('XCCL: ncclCommInitRank unhandled error")
        assert log
    with host.ranks(*good) as ranks:
        assert healthy(host.grouped(ranks))


@ROOT
@pytest.mark.parametrize(
    ("spec", "slow", "quick"), [("card=4:slow:0.05", (4, 5), (5, 6)), ("pair=4,7:slow:0.05", (4, 7), (4, 5))]
)
def test_slow_takes_so_many_times_as_long(
    host: Host, spec: str, slow: tuple[int, ...], quick: tuple[int, ...]
) -> None:
    # 256 MiB of a pair with a link take 9.3 ms: a twentieth of the speed adds 177, which the busiest machine
    # doesn't take for noise
    host.break_(spec)
    with host.ranks(*slow) as ranks:
        for told in host.grouped(ranks, size=256 * MIB, rounds=6):
            # the first two are measured, not delayed; on a busy machine one more may be
            assert statistics.median(told["seconds"][2:]) > 0.17
    with host.ranks(*quick) as ranks:
        for told in host.grouped(ranks, size=256 * MIB, rounds=6):
            assert min(told["seconds"]) < 0.09


@ROOT
def test_a_slow_card_is_slow_alone_too(host: Host) -> None:
    host.break_("card=4:slow:0.05")
    with host.ranks(4, 5) as (slow, quick):
        assert min(slow.do("single", size=MIB, rounds=6)[2:]) > 0.13
        assert min(quick.do("single", size=MIB, rounds=6)) < 0.07


def test_a_delay_that_would_drown_is_left_out() -> None:
    steady, noisy = rankfaults.Pace(), rankfaults.Pace()
    assert steady.delay("kind", 0.01, 0.5) == 0  # nothing is known yet
    for more in (0.0, 0.0002, 0.0001):
        steady.note("kind", 0.01 + more)
        noisy.note("kind", 0.01 + 20 * more)
    assert steady.delay("kind", 0.01, 0.5) == pytest.approx(0.01)
    assert steady.delay("other", 0.01, 0.5) == 0
    assert noisy.delay("kind", 0.01, 0.5) == 0
    assert steady.delay("kind", 0.01, 1.0) == 0


@ROOT
def test_faults_are_of_the_card_not_of_the_number(host: Host) -> None:
    host.break_("pair=0,1:error")
    with host.ranks(0, 1, 3) as ranks:
        assert "xpulink" in host.grouped(ranks[:2])[0]
        ranks[0].do("reset")
        assert healthy(host.grouped([ranks[0], ranks[2]]))
    # another kernel gives the nodes other numbers: what was the node of card 3 is that of card 1 now
    assert (cards.MINORS[3], cards.MINORS[2]) == (cards.RENUMBERED[1], cards.RENUMBERED[0])
    host.break_("pair=0,1:error", "renumber")
    with host.ranks(0, 1, 2, 3) as ranks:
        assert healthy(host.grouped(ranks[:2]))
        assert "xpulink" in host.grouped(ranks[2:])[0]


@ROOT
def test_dead_reaches_a_container_that_runs(host: Host) -> None:
    host.break_("card=1:dead")
    with host.ranks(1, 2, took=False) as (dead, lives):
        dead.ask("take")
        told = dead.answer()
        assert told is not None
        assert "Initialize default context for dev -1 fail" in told["error"]
        assert lives.do("take")


# --- around a real torch ------------------------------------------------------------------------------------


class Numbers:
    """As much of a tensor as the layer touches."""

    def __init__(self, count: int) -> None:
        self.values = [1.0] * count

    def numel(self) -> int:
        return len(self.values)

    def element_size(self) -> int:
        return 4

    def __getitem__(self, at: int) -> float:
        return self.values[at]

    def __setitem__(self, at: int, value: float) -> None:
        self.values[at] = value


class Store:
    """A store that everybody has written to."""

    def __init__(self, **said: bytes) -> None:
        self.said = dict(said)

    def set(self, key: str, value: str) -> None:
        self.said[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.said[key]


@pytest.fixture
def fake_torch() -> SimpleNamespace:
    distributed = SimpleNamespace(
        init_process_group=lambda **_: None, all_reduce=lambda _: None, destroy_process_group=lambda: None
    )
    make = Numbers
    return SimpleNamespace(arange=make, empty=make, full=make, remainder=make, distributed=distributed)


@pytest.fixture
def layered(
    host: Host, fake_torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimpleNamespace]:
    """The layer of card 2's rank around a torch of no content."""
    for name, value in host.env.items():
        if name.startswith("KLOPS_SIM_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("XPU_VISIBLE_DEVICES", str(cards.MINORS[2]))
    layer = sitecustomize.Layer(0)
    layer.patch(fake_torch)
    fake_torch.card = layer.card
    yield fake_torch
    # a rank has them open until it ends
    for fd in list(Path("/proc/self/fd").iterdir()):
        if str(fd.resolve()).startswith(str(host.devices)):
            os.close(int(fd.name))


@ROOT
def test_a_real_torch_gets_the_same_faults(host: Host, layered: SimpleNamespace) -> None:
    assert layered.card == 2
    form = layered.distributed.init_process_group
    host.break_("pair=2,6:error")
    with pytest.raises(RuntimeError, match="xpulink"):
        form(store=Store(**{"card of 1": b"6"}), rank=0, world_size=2)
    host.break_("card=2:wrong:1/2")
    form(store=Store(**{"card of 1": b"5"}), rank=0, world_size=2)
    summed = Numbers(4)
    for _ in range(4):
        layered.distributed.all_reduce(summed)
    # rounds 1 and 3 of 4
    assert sorted(summed.values) == [1.0, 1.0, 1.0, 3.0]
    layered.distributed.destroy_process_group()


@ROOT
def test_a_real_torch_finds_no_card_where_none_opens(
    host: Host, fake_torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLOPS_SIM_DEVICE_DIR", str(host.devices))
    monkeypatch.setenv("XPU_VISIBLE_DEVICES", "")
    sitecustomize.Layer(0).patch(fake_torch)
    with pytest.raises(RuntimeError, match=r"\[ERROR\]\[XPURT\]"):
        fake_torch.arange(4)


def test_ranks_in_containers_find_what_is_theirs(tmp_path: Path) -> None:
    numbers = (cards.Numbers(4, 20), cards.Numbers(4, 29))
    hosts = [
        RehearsalHost(f"demo{n}", tmp_path / f"demo{n}", "local", "127.0.0.1", "c", 1, numbers[n - 1])
        for n in (1, 2)
    ]
    made = Rehearsal(tmp_path, "abc", hosts)
    for diagnose in ("never", None):
        text = inventory_text(made, vllms.standin(), [], diagnose=diagnose)
        shared = YAML(typ="safe").load(text)["all"]["vars"]["klops"]
        assert shared.get("cards") == ({"diagnose": "never"} if diagnose else None)
        env = shared["container"]["env"]
        assert env["PYTHONPATH"] == str(made.rank_side)
        assert env["KLOPS_SIM_CARDS"] == f"{tmp_path}/demo1/cards.json:{tmp_path}/demo2/cards.json"


@ROOT
def test_of_many_hosts_cards_those_with_its_numbers_are_meant(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLOPS_SIM_CARDS", f"/nowhere/cards.json:{host.env['KLOPS_SIM_CARDS']}")
    nodes = [str(host.devices / f"xpu{minor}") for minor in cards.MINORS]
    assert [rankfaults.card_of(node) for node in nodes] == list(range(8))
    assert rankfaults.card_of(str(host.devices / "xpuctrl")) is None


def test_only_ranks_are_touched(tmp_path: Path) -> None:
    rankside.write(tmp_path / "path", real=True)
    (tmp_path / "path" / "torch.py").write_text("print('torch as it is')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import sys, torch; print('rankfaults' in sys.modules, sys.meta_path[0])"],
        env={"PYTHONPATH": str(tmp_path / "path")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("torch as it is\n")
    assert "sitecustomize" not in done.stdout


# --- and the stand-in vllm ----------------------------------------------------------------------------------


@contextmanager
def served(host: Host, *indexes: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A stand-in vllm on these cards; it and its log. All of it is killed at the end."""
    vllms.write_standin_model(host.folder / "model")
    visible = ",".join(str(cards.MINORS[index]) for index in indexes)
    argv = [sys.executable, "-S", standin.__file__, "serve", str(host.folder / "model")]
    argv += ["--host", "127.0.0.1", "--port", "0", "-tp", str(len(indexes))]
    log = host.folder / "served"
    with short_folder() as sockets, log.open("wb") as out:
        env = {**host.env, "XPU_VISIBLE_DEVICES": visible, "TMPDIR": str(sockets)}
        with subprocess.Popen(
            argv, env=env | {"KLOPS_SIM_LOAD_SECONDS": "0.1"}, stdout=out, stderr=out, start_new_session=True
        ) as process:
            try:
                yield process, log
            finally:
                os.killpg(process.pid, signal.SIGKILL)


@ROOT
def test_a_service_on_a_pair_without_a_link_fails_to_load(host: Host) -> None:
    host.break_("pair=2,6:error")
    with served(host, 2, 6) as (process, log):
        assert process.wait(30) == 1
        assert "xpulink not active" in log.read_text()


@ROOT
@pytest.mark.parametrize("spec", ["card=3:hang-init", "card=3:hang-collective", "pair=1,3:hang"])
def test_a_service_on_a_card_that_hangs_never_gets_to_load(host: Host, spec: str) -> None:
    host.break_(spec)
    with served(host, 1, 3) as (process, log):
        node = str(host.devices / f"xpu{cards.MINORS[3]}")
        (pid,) = until(lambda: holders(node), what="the worker has its card")
        until(lambda: ignores_term(pid), what="it is where nothing but KILL ends it")
        assert "Starting to load model" not in log.read_text()
        assert process.poll() is None


@ROOT
def test_a_service_on_healthy_cards_of_that_host_is_ready(host: Host) -> None:
    host.break_("card=3:hang-init", "pair=1,6:error", "card=2:slow:0.5", "card=1:wrong:1/2", "group=3:error")
    with served(host, 1, 2) as (process, log):
        until(lambda: "Application startup complete" in log.read_text(), what="it is ready")
        assert process.poll() is None


def holders(node: str) -> list[int]:
    """Pids that have a node open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                targets = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
            except OSError:
                continue
            if node in targets:
                found.append(int(entry.name))
    return found


def ignores_term(pid: int) -> bool:
    """Whether TERM is ignored there."""
    text = Path(f"/proc/{pid}/status").read_text().partition("SigIgn:")[2].split()[0]
    return bool(int(text, 16) & 1 << (signal.SIGTERM - 1))
