"""``klops hosts trust`` as its users run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.sshd import Sshd, make_key, start_sshd
from tests.host.support import klops

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    daemon = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield daemon
    daemon.close()


def test_trust_shows_asks_records_and_replaces(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    args = f"-F none -o UserKnownHostsFile={known} -o GlobalKnownHostsFile=none"
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": sshd.port,
        "ansible_user": sshd.user,
        "ansible_ssh_private_key_file": str(sshd.key_file),
        "ansible_ssh_common_args": args,
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"host1": host}}}))

    def trust(*more: str) -> tuple[int, str]:
        done = klops("hosts", "trust", "host1", "-i", str(inventory), *more)
        return done.rc, done.stdout + done.stderr

    rc, said = trust()
    assert rc == 2
    assert "SHA256:" in said
    assert "--yes" in said
    assert not known.exists()
    assert trust("--check")[0] == 0
    assert not known.exists()
    done = klops("hosts", "trust", "host1", "-i", str(inventory), "--yes", "-o", "json")
    assert done.rc == 0
    assert done.json["hosts"]["host1"]["keys"][0]["outcome"] == "recorded"
    assert known.read_text() == sshd.known_hosts.read_text()
    rc, said = trust()
    assert (rc, "already trusted" in said) == (0, True)

    make_key(tmp_path / "other")
    kind, blob = (tmp_path / "other.pub").read_text().split()[:2]
    known.write_text(f"[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    rc, said = trust("--yes")
    assert rc == 2
    assert said.count("SHA256:") >= 2
    assert blob in known.read_text()
    assert trust("--yes", "--replace")[0] == 0
    assert known.read_text() == sshd.known_hosts.read_text()
