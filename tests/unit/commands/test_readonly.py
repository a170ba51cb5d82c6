from __future__ import annotations

import pytest

from klops.commands.readonly import refusal


@pytest.mark.parametrize(
    "argv",
    [
        "docker exec klops test -d /models/a",
        "docker exec klops cat /etc/os-release",
        "docker exec klops ls -1 /models",
        "sudo -n docker -H unix:///x exec klops xpu-smi -q",
        "docker exec klops /usr/local/bin/xpu-smi -m",
        "ss -H -ltnp",
        "/opt/bin/xpu-smi topo -m",
        "df -Pk -- /a",
        "docker image inspect a",
        "dmesg",
        "dmesg -T",
        "lspci -n -d 1d22:",
    ],
)
def test_these_only_read(argv: str) -> None:
    assert refusal(argv.split()) == ""


@pytest.mark.parametrize(
    "argv",
    [
        "docker exec -i klops cat",
        "docker exec -u root klops ls",
        "docker exec klops sh -c ls",
        "docker exec klops rm /a",
        "docker exec klops xpu-smi -r -i 0",
        "docker exec klops xpu-smi -q -r",
        "docker exec klops docker rm x",
        "docker exec klops",
        "docker exec",
        "docker run a",
        "docker image rm a",
        "ss -K dst 10.0.0.1",
        "ss -tK",
        "ss --kill",
        "ss -D /tmp/file",
        "ss -H -ltnp -D/tmp/file",
        "ss -ltnpK -H",
        "dmesg -c",
        "dmesg -T -C",
        "dmesg -n 1",
        "dmesg -TD",
        "lspci",
        "lspci -n -q",
        "lspci -n -d 1d22: -q",
        "docker exec klops dmesg",
        "xpu-smi",
        "xpu-smi -q -f /tmp/file",
        "xpu-smi -m -f/tmp/file",
        "docker exec klops xpu-smi -q --filename=/tmp/file",
        "xpu-smi topo -r",
        "sudo docker ps",
        "",
    ],
)
def test_these_are_not_known_to(argv: str) -> None:
    assert refusal(argv.split())
