"""known_hosts: the forms that OpenSSH writes and reads."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from klops.remote.hostkeys import HostKey, host_name, judge, load, names_host, parse, preferred, record

ED = HostKey("ssh-ed25519", b"ed")
RSA = HostKey("ssh-rsa", b"rsa")
OTHER = HostKey("ssh-ed25519", b"other")


def line(patterns: str, key: HostKey, marker: str = "") -> str:
    return f"{marker} {patterns} {key.type} {base64.b64encode(key.blob).decode()} comment".strip() + "\n"


def hashed(name: str) -> str:
    salt = b"s" * 20
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("patterns", "name", "hit"),
    [
        ("host1", "host1", True),
        ("HOST1,other", "host1", True),
        ("host1", "host10", False),
        ("[host1]:2222", "[host1]:2222", True),
        ("[host1]:2222", "host1", False),
        ("[*]:2222", "[host1]:2222", True),
        ("*.lab,!bad.lab", "good.lab", True),
        ("*.lab,!bad.lab", "bad.lab", False),
        ("host?", "host1", True),
        (hashed("[host1]:2222"), "[host1]:2222", True),
        (hashed("host1"), "host2", False),
        ("|1|broken", "host1", False),
    ],
)
def test_names(patterns: str, name: str, hit: bool) -> None:
    assert names_host(patterns, name) is hit


def test_verdicts() -> None:
    entries = parse("# note\n\nnonsense\n" + line("host1", ED) + line("ca", ED, "@cert-authority"), "file")
    assert judge(entries, "host1", ED).kind == "known"
    assert judge(entries, "host2", ED).kind == "unknown"
    assert judge(entries, "ca", ED).kind == "unknown"
    changed = judge(entries, "host1", OTHER)
    assert (changed.kind, changed.entries[0].line) == ("changed", 4)
    revoked = parse(line("host1", ED) + line("*", ED, "@revoked"), "file")
    assert judge(revoked, "host1", ED).kind == "revoked"


def test_the_recorded_type_is_asked_for_first() -> None:
    offered = ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]
    entries = parse(line("host1", RSA), "file")
    assert preferred(entries, "host1", offered) == ["rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519"]
    assert preferred(entries, "host2", offered) == offered


def test_fingerprint_and_names() -> None:
    assert ED.fingerprint == "SHA256:" + base64.b64encode(hashlib.sha256(b"ed").digest()).decode().rstrip("=")
    assert (host_name("Host1", 22), host_name("::1", 2222)) == ("host1", "[::1]:2222")


def test_recording_replaces_only_what_it_must(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "known_hosts"
    record(str(file), "host1", ED)
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("# kept\n" + line("host1,alias", ED) + line("host2", ED) + line(hashed("host1"), ED))
    verdict = judge(load([str(file)]), "host1", OTHER)
    record(str(file), "host1", OTHER, replaced=verdict.entries)
    assert file.read_text().splitlines() == [
        "# kept",
        line("alias", ED).strip(),
        line("host2", ED).strip(),
        f"host1 {OTHER.type} {base64.b64encode(OTHER.blob).decode()}",
    ]
    assert [p.name for p in file.parent.iterdir()] == ["known_hosts"]
