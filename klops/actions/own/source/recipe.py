"""What a build is made with: all that decides about its result. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from klops.source.manifest.release import built

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings


def wanted_name(settings: Settings, source: str, image: str) -> str:
    """The name of the release that is to run: that of the source, or of what is built of it.

    ``image``: the container's, by its id. What is compiled in one image is nothing for another; and another
    version of a pinned package may be compiled against, too.
    """
    if not settings.source.build.commands:
        return source
    pins = {name: package.version for name, package in settings.stack.packages.items()}
    decides: tuple[Any, ...] = (
        settings.source.build.commands,
        settings.source.build.env,
        settings.source.build.installs,
        carried(settings),
        settings.container.python,
        image,
        pins,
    )
    return built(source, [json.dumps(one, sort_keys=True) for one in decides])


def image_of(host: HostView) -> str:
    """The image of the container by its id; "" where there is no container."""
    return "" if host.container is None else str(host.container.raw.get("Image") or "")


def carried(settings: Settings) -> list[dict[str, Any]]:
    """What a build takes over from installed packages, as the agent takes it."""
    return [
        {"package": target.package, "path": target.folder, "globs": target.carry}
        for target in settings.source.targets
        if target.package is not None and target.carry
    ]
