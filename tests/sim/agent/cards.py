"""Cards for an agent on a root of its own: nodes that can be told apart, and an xpu-smi that knows them."""

from __future__ import annotations

import json
import shutil
from typing import Any

from klops.cards.identity import normalise_bdf
from klops.sim import cards, xpu_smi
from tests.sim.agent.site import Site


class Cards:
    """The cards of a site; ``smi`` is the program."""

    def __init__(self, site: Site) -> None:
        folder = site.folder
        cards.make_nodes(site.devices, site.numbers, {})
        self.description = cards.describe("site", str(folder), site.numbers, folder / "faults.json")
        cards.write_description(folder / "cards.json", self.description)
        place = folder / "smi"
        place.mkdir()
        script = shutil.copy(xpu_smi.__file__, place)
        self.smi = place / "xpu-smi"
        self.smi.write_text(f'#!/bin/sh\nexec {site.python} -IS {script} "$@"\n')
        self.smi.chmod(0o755)
        self._kept = place / "memory.json"

    def identity(self, index: int) -> dict[str, Any]:
        """A card as a specification has it."""
        (found,) = [one for one in self.description["cards"] if one["index"] == index]
        identity = {key: found[key] for key in ("index", "minor", "uuid", "serial")}
        return {**identity, "node": f"/dev/xpu{found['minor']}", "bdf": normalise_bdf(found["bdf"])}

    def keep(self, **used: int) -> None:
        """Have a driver keep MiB in use on cards, by their index, though nobody holds them."""
        new = self._kept.with_name("new")
        new.write_text(json.dumps({name.removeprefix("card"): mib for name, mib in used.items()}))
        new.replace(self._kept)
