"""``stat``: all about a path on the host.

.. code-block:: yaml

    - stat: {path: /data/models/config.json, checksum_algorithm: sha256}
      register: config
    - fail: {msg: no model}
      when: not config.stat.exists
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.files.filestat import parse
from klops.remote.filereads import StatRead

Algorithm = Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]


class StatParams(Params):
    """What to look at, and how closely."""

    path: str = Field(min_length=1, validation_alias=AliasChoices("path", "dest", "name"))
    follow: bool = False
    get_checksum: bool = True
    checksum_algorithm: Algorithm = Field(
        default="sha1", validation_alias=AliasChoices("checksum_algorithm", "checksum", "checksum_algo")
    )
    get_mime: bool = Field(
        default=True, validation_alias=AliasChoices("get_mime", "mime", "mime_type", "mime-type")
    )
    get_attributes: bool = Field(
        default=True, validation_alias=AliasChoices("get_attributes", "attr", "attributes")
    )


class Stat(Action[StatParams]):
    """Look at a path; changes nothing."""

    name = "stat"
    params = StatParams

    def probe(self, params: StatParams, view: View) -> Probe:
        """The one read."""
        checksum = params.checksum_algorithm if params.get_checksum else ""
        read = StatRead("stat", params.path, params.follow, checksum, params.get_mime, params.get_attributes)
        return Probe((read,))

    def plan(self, params: StatParams, view: View, seen: Seen) -> Plan:
        """No steps."""
        found = parse(seen.replies["stat"], mime=params.get_mime, attributes=params.get_attributes)
        return Plan(result={"stat": found})
