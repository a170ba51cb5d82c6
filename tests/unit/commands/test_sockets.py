from __future__ import annotations

from klops.commands.sockets import parse_proc, parse_ss

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def test_ss_names_processes_where_it_may() -> None:
    found = parse_ss(
        'LISTEN 0 4096    0.0.0.0:8000   0.0.0.0:*  users:(("vllm",pid=20,fd=3),("vllm",pid=21,fd=3))\n'
        "LISTEN 0      128             [::1]:631          [::]:*\n"
        "LISTEN 0      128                *:22               *:*\n"
        "noise\nESTAB 0 0 10.0.0.1:22 10.0.0.2:4444\n"
    )
    assert [(item.address, item.port, item.pid) for item in found] == [
        ("0.0.0.0", 8000, 20),
        ("0.0.0.0", 8000, 21),
        ("[::1]", 631, None),
        ("*", 22, None),
    ]
    assert str(found[0]) == "vllm (pid 20) on 0.0.0.0:8000"
    assert str(found[2]) == "a process (owner not visible) on [::1]:631"


def test_proc_names_users() -> None:
    found = parse_proc(
        HEAD
        + "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 1 1 0\n"
        + "   1: 0100007F:1F41 0100007F:9999 01 00000000:00000000 00:00000000 00000000 1000 0 1 1 0\n"
        + "   2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A "
        "00000000:00000000 00:00000000 00000000     0        0 1 1 0 100\n"
        + "   3: zz:0050 00000000:0000 0A 0:0 0:0 0 0 0 1\n"
    )
    assert [(item.address, item.port, item.uid) for item in found] == [
        ("127.0.0.1", 8000, 1000),
        ("[::]", 80, 0),
    ]
    assert str(found[0]) == "a process (uid 1000) on 127.0.0.1:8000"


def test_ss_without_a_port_is_no_listener() -> None:
    assert parse_ss("LISTEN 0 128 0.0.0.0:\u00b2 0.0.0.0:*\n") == []
