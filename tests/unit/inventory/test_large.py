"""A fleet of ten thousand hosts."""

from __future__ import annotations

import time
from pathlib import Path

from klops.inventory import load
from klops.inventory.listing import as_list

#: Seconds of processor time; what the machine does beside the test doesn't count.
ENOUGH = 6.0


def test_ten_thousand_hosts(tmp_path: Path) -> None:
    lines = [
        "[site:children]",
        *(f"g{number}" for number in range(100)),
        "[site:vars]",
        "a=1",
        "b={'c': [1, 2]}",
    ]
    for group in range(100):
        lines += [f"[g{group}]", *(f"h{group}-{n} ansible_host=192.0.2.{n} rack={group}" for n in range(100))]
    (tmp_path / "hosts.ini").write_text("\n".join(lines), encoding="utf-8")
    started = time.process_time()
    inventory = load([str(tmp_path / "hosts.ini")])
    listed = as_list(inventory)
    names = inventory.select(["site:!g7"])
    for host in names:
        inventory.variables(host)
    assert time.process_time() - started < ENOUGH
    assert len(listed["_meta"]["hostvars"]) == 10_000
    assert len(names) == 9_900
