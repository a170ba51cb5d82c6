"""The one sample there is of ``xpu-smi topo -m``, and what may be wrong with a table."""

from __future__ import annotations

import pytest

from klops.cards.evidence import topology

SAMPLE = """\
        XPU0 XPU1 XPU2 XPU3 XPU4 XPU5 XPU6 XPU7 NIC0 NIC1 NIC2 NIC3 NIC4 CPU Affinity NUMA Affinity
XPU0    X    XL   XL   XL   SYS  SYS  SYS  SYS  NODE PIX  NODE SYS  SYS  0-51,104-155 0
XPU1    XL   X    XL   XL   SYS  XL   SYS  SYS  NODE PIX  NODE SYS  SYS  0-51,104-155 0
XPU2    XL   XL   X    XL   SYS  SYS  XL   SYS  NODE NODE PIX  SYS  SYS  0-51,104-155 0
XPU3    XL   XL   XL   X    SYS  SYS  SYS  XL   NODE NODE PIX  SYS  SYS  0-51,104-155 0
XPU4    XL   SYS  SYS  SYS  X    XL   XL   XL   SYS  SYS  SYS  PIX  NODE 52-103,156-207 1
XPU5    SYS  XL   SYS  SYS  XL   X    XL   XL   SYS  SYS  SYS  PIX  NODE 52-103,156-207 1
XPU6    SYS  SYS  XL   SYS  XL   XL   X    XL   SYS  SYS  SYS  NODE PIX  52-103,156-207 1
XPU7    SYS  SYS  SYS  XL   XL   XL   XL   X    SYS  SYS  SYS  NODE PIX  52-103,156-207 1

Legend:
  X = Self

NIC Legend:
  NIC0: mlx5_0
"""


def test_a_link_is_there_if_either_direction_says_so() -> None:
    found = topology.parse(SAMPLE)
    assert found.cards == tuple(range(8))
    assert len(found.links) == 28
    assert found.links[0, 4] == "XL"
    assert (found.links[1, 5], found.links[0, 5], found.links[0, 1]) == ("XL", "SYS", "XL")
    assert [(one.card, one.severity) for one in found.findings] == [(None, "note")]
    assert "SYS from card 0 to 4, XL from 4 to 0" in found.findings[0].text
    assert topology.alone(found) == []


def test_the_farther_way_counts_where_both_are_none_of_xpulink() -> None:
    found = topology.parse("XPU0 XPU1 CPU Affinity\nXPU0 X PHB 0-3\nXPU1 SYS X 0-3\n")
    assert found.links == {(0, 1): "SYS"}
    assert len(found.findings) == 1


def test_noise_colours_and_other_names_of_network_cards() -> None:
    text = (
        "WARN: XPU driver is old\n\x1b[4m      XPU0 mlx5_0 XPU1 mlx5_1 CPU Affinity\x1b[0m\n"
        "XPU0 X PIX XL NODE 0-3 0\nwarning: XPU1\nXPU1 XL NODE X PIX 0-3 0\n"
    )
    assert topology.parse(text).links == {(0, 1): "XL"}


def test_a_row_that_does_not_mark_its_own_card_is_not_believed() -> None:
    text = SAMPLE.replace("XPU2    XL   XL   X    XL", "XPU2    XL   XL   XL   X ")
    found = topology.parse(text)
    assert ["where card 2 meets itself" in one.text for one in found.findings].count(True) == 1
    assert found.links[2, 3] == "XL"  # as card 3 says


def test_a_row_cut_short_and_a_card_without_a_row() -> None:
    found = topology.parse("XPU0 XPU1 XPU2 NIC0\nXPU0 X XL\nXPU1 XL X\n")
    assert found.links == {(0, 1): "XL"}


def test_one_card_and_none() -> None:
    assert topology.parse("XPU0 CPU Affinity NUMA Affinity\nXPU0 X 0-3 0\n").cards == (0,)
    assert topology.parse("xpu-smi: command not found\n") == topology.Topology()
    assert topology.alone(topology.Topology()) == []


def test_a_card_without_any_link_where_the_others_have_some() -> None:
    lines = []
    for line in SAMPLE.splitlines():
        words = line.split()
        if words and words[0] == "XPU5":
            words = [word.replace("XL", "SYS") for word in words]
        elif words and words[0].startswith("XPU") and words[1] != "XPU1":
            words[6] = words[6].replace("XL", "SYS")
        lines.append(" ".join(words))
    found = topology.parse("\n".join(lines))
    assert found.neighbours[5] == frozenset()
    assert [(one.card, one.severity) for one in topology.alone(found)] == [(5, "degraded")]


def test_cards_without_links_are_as_they_are_made() -> None:
    table = "XPU0 XPU1 CPU Affinity\nXPU0 X PHB 0-3\nXPU1 PHB X 0-3\n"  # two cards for PCIe
    assert topology.alone(topology.parse(table)) == []


@pytest.mark.parametrize(
    ("groups", "apart"),
    [
        ([[0, 1, 2, 3], [4, 5, 6, 7], list(range(8))], []),
        # over the links from wing to wing
        ([[0, 1, 4, 5], [0, 4]], []),
        ([[0, 1, 2, 7]], ["from card 0 to card 7"]),
        ([[0, 5], [2, 3, 4]], ["from card 0 to card 5", "from card 2 to card 4"]),
        ([[8, 9], [3]], []),
    ],
)
def test_groups_of_the_settings_are_joined_by_links(groups: list[list[int]], apart: list[str]) -> None:
    found = topology.grouped(topology.parse(SAMPLE), groups)
    assert len(found) == len(apart)
    assert all(one.text.endswith(apart[number]) for number, one in enumerate(found))
    assert {(one.card, one.severity) for one in found} <= {(None, "degraded")}


def test_where_no_card_has_a_fast_link_groups_are_what_they_are() -> None:
    assert topology.grouped(topology.parse("XPU0 XPU1\nXPU0 X PHB\nXPU1 PHB X\n"), [[0, 1], [0]]) == []
