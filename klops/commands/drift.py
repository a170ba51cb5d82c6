"""In what a container differs from what is wanted. Pure.

What the container has is compared, whatever its labels say. The digests in its labels only decide about what
it has *beyond* the specification: where klops asked for the same when it made the container, such things are
the engine's own (default limits of its daemon.json, variables that its client adds); where it asked for
something else, or the container was made by hand, they are not wanted.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from klops.commands import inspected as have
from klops.commands import inspectedpaths as paths
from klops.commands.containerspec import LISTS_LABEL, MANAGED_LABEL, SPEC_LABEL, ContainerSpec, size_as_text
from klops.commands.docker import LOG_OPTIONS, STOP_TIMEOUT, Image

#: Keys of what services see: only these may lead to a new container in place of one that klops didn't make.
REAL = frozenset(
    (
        "image",
        "image_id",
        "devices",
        "volumes",
        "env",
        "shm",
        "ulimits",
        "runtime",
        "network",
    )
)
#: Keys of what makes a container only weaker: what klops itself wants, and no setting asks for.
WEAKER = frozenset(("caps", "command", "init", "labels", "log", "restart", "security", "stop_timeout"))
#: Keys whose values are lists without order, of which only the difference is worth telling.
_SETS = frozenset(("devices", "volumes", "caps", "security"))
#: Options of the engine's log that are compared.
_LOG = {name: value for name, value in LOG_OPTIONS if name.startswith("max-")}
#: What stands for a value that may be somebody's secret.
HIDDEN = "(a value that is not shown)"
_SECRET = re.compile("TOKEN|KEY|SECRET|PASS|AUTH|CRED", re.IGNORECASE)


@dataclass(frozen=True)
class Drift:
    """One thing in which a container differs from what is wanted; None where a side has nothing."""

    key: str
    want: Any
    have: Any

    def as_json(self) -> dict[str, Any]:
        """The shape of the contract."""
        return {"key": self.key, "want": self.want, "have": self.have}

    @property
    def real(self) -> bool:
        """Whether services see it, and not only klops."""
        return self.key.partition(".")[0] in REAL

    def __str__(self) -> str:
        if self.key in _SETS and isinstance(self.want, list) and isinstance(self.have, list):
            lacks = [text for text in self.want if text not in self.have]
            besides = [text for text in self.have if text not in self.want]
            told = [
                f"{word} {_short(', '.join(map(str, texts)))}"
                for word, texts in (("lacks", lacks), ("has besides", besides))
                if texts
            ]
            if told:
                return f"{self.key}: {'; '.join(told)}"
        return f"{self.key}: have {_short(self.have)}, want {_short(self.want)}"


def _short(value: Any) -> str:
    if value is None or value == "":
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."


def parse_links(text: str) -> dict[str, str]:
    """Real path of each path of a :class:`~klops.remote.containerreads.DeviceLinksRead`'s output.

    A path that leads nowhere is left out.
    """
    rows = (line.partition("\t") for line in text.splitlines())
    return {posixpath.normpath(path): real for path, _, real in rows if real}


def drift(
    spec: ContainerSpec,
    inspected: Mapping[str, Any],
    *,
    image: Image | None = None,
    wanted_image: Image | None = None,
    links: Mapping[str, str] | None = None,
) -> list[Drift]:
    """In what a container, as ``docker inspect`` shows it, differs from ``spec``.

    ``image`` is the one the container was made from, ``wanted_image`` the one that the name in ``spec``
    stands for now; what isn't known of them isn't compared. ``links``: real path of paths on the host.
    """
    comparison = _Comparison(spec, inspected, image, wanted_image, links or {})
    return comparison.all()


@dataclass(frozen=True)
class _Comparison:
    spec: ContainerSpec
    inspected: Mapping[str, Any]
    image: Image | None
    wanted_image: Image | None
    links: Mapping[str, str]

    @property
    def labels(self) -> Mapping[str, Any]:
        return have.config(self.inspected).get("Labels") or {}

    def same(self, key: str) -> bool:
        """Whether klops made the container, and asked for the same in ``key`` then."""
        if self.labels.get(SPEC_LABEL) == self.spec.digest:
            return True
        return f"{key}:{self.spec.lists[key]}" in str(self.labels.get(LISTS_LABEL)).split(",")

    @property
    def privileged(self) -> bool:
        return bool(have.host_config(self.inspected).get("Privileged"))

    def all(self) -> list[Drift]:
        spec, host, config = self.spec, have.host_config(self.inspected), have.config(self.inspected)
        command = have.strings(config.get("Entrypoint")) + have.strings(config.get("Cmd"))
        volumes = set(map(str, paths.volumes(self.inspected)))
        stop = config.get("StopTimeout")
        log = (host.get("LogConfig") or {}).get("Config") or {}
        return [
            *self._image(),
            *_value("command", list(spec.command), command),
            *self._devices(),
            *self._set("volumes", map(str, map(paths.parse_volume, spec.volumes)), volumes),
            *self._env(),
            *_value("shm", size_as_text(spec.shm), have.shm(self.inspected)),
            *self._caps(),
            *self._security(),
            *self._ulimits(),
            *self._runtime(str(host.get("Runtime") or "")),
            *_value("network", "host", host.get("NetworkMode")),
            *_value("restart", "always", (host.get("RestartPolicy") or {}).get("Name") or "no"),
            *_value("init", True, bool(host.get("Init"))),
            *_value("stop_timeout", spec.stop_timeout, STOP_TIMEOUT if stop is None else stop),
            *_value("log", _LOG, {name: _text(log.get(name)) for name in _LOG}),
            *_value("labels", {MANAGED_LABEL: "1"}, {MANAGED_LABEL: self.labels.get(MANAGED_LABEL)}),
        ]

    def _set(self, key: str, want: Iterable[str], has: set[str], covered: bool = False) -> list[Drift]:
        """Compare without order. ``covered``: nothing can be missing, for a reason of its own."""
        wanted = set(want)
        missing = not covered and wanted - has
        extra = not self.same(key) and has - wanted
        return [Drift(key, sorted(wanted), sorted(has))] if missing or extra else []

    def _image(self) -> list[Drift]:
        name = str(have.config(self.inspected).get("Image") or "")
        identity = str(self.inspected.get("Image") or "")
        wanted = self.wanted_image.id if self.wanted_image is not None else ""
        if wanted and wanted == identity:
            return []  # under whatever name
        if have.image_name(name) != have.image_name(self.spec.image):
            return [Drift("image", self.spec.image, name or None)]
        return _value("image_id", wanted, identity) if wanted and identity else []

    def _devices(self) -> list[Drift]:
        want = {paths.Device(paths.real(node, self.links), inside) for node, inside in self.spec.devices}
        has: set[paths.Device] = set()
        for device in paths.devices(self.inspected, self.links):
            out_of_folder = {found for item in want if (found := device.of(item.node)) in want}
            has |= {found for found in out_of_folder if found is not None} or {device}
        if self.privileged:  # every node of the host is there, under its own path
            has |= {device for device in want if device.node == device.inside}
        texts = {*map(str, has), *paths.other_devices(self.inspected)}
        return self._set("devices", map(str, want), texts)

    def _env(self) -> list[Drift]:
        """By name. A value that the settings don't give is somebody else's, and is shown only where it can't
        be a secret: never that of a variable that they don't name.
        """
        wanted, has = dict(self.spec.env), have.environment(self.inspected)
        found = []
        for name, value in wanted.items():
            if has.get(name) != value:
                secret = _SECRET.search(name) and has.get(name) is not None
                found.append(Drift(f"env.{name}", value, HIDDEN if secret else has.get(name)))
        if self.same("env") or self.image is None:
            return found
        for name in sorted(has.keys() - wanted.keys()):
            own = self.image.env.get(name)
            if own != has[name]:
                found.append(Drift(f"env.{name}", own and "(that of the image)", HIDDEN))
        return found

    def _caps(self) -> list[Drift]:
        has = have.capabilities(self.inspected)
        return self._set("caps", map(have.capability, self.spec.caps), has, self.privileged or "ALL" in has)

    def _security(self) -> list[Drift]:
        want, has = set(map(have.security_option, self.spec.security)), have.security(self.inspected)
        if self.privileged:
            return [Drift("security", sorted(want), sorted(has))]
        return self._set("security", want, has)

    def _ulimits(self) -> list[Drift]:
        want = {name: have.ulimit(value) for name, value in self.spec.ulimits}
        has = have.ulimits(self.inspected)
        differs = self._set("ulimits", map("=".join, want.items()), set(map("=".join, has.items())))
        return [Drift("ulimits", want, has)] if differs else []

    def _runtime(self, has: str) -> list[Drift]:
        """Where none is wanted the engine's default is right, which its daemon.json may have changed."""
        plain = has in have.PLAIN_RUNTIMES
        if self.spec.runtime:
            both_plain = plain and self.spec.runtime in have.PLAIN_RUNTIMES
            return [] if both_plain else _value("runtime", self.spec.runtime, has or None)
        taken_away = SPEC_LABEL in self.labels and not self.same("runtime")
        return [Drift("runtime", None, has)] if taken_away and not plain else []


def _text(value: Any) -> str | None:
    """A value of the log as text: engines and those who call them write numbers either way."""
    return None if value is None else str(value)


def _value(key: str, want: Any, has: Any) -> list[Drift]:
    return [] if want == has else [Drift(key, want, has)]
