"""In what the container of a host differs from its settings, by what was read of both. Pure."""

from __future__ import annotations

from klops.actions.own import hostreads
from klops.actions.own.hostview import reply
from klops.commands import docker
from klops.commands.containerspec import ContainerSpec
from klops.commands.docker import Container
from klops.commands.drift import Drift, drift, parse_links
from klops.remote.base import Replies


def differences(spec: ContainerSpec, container: Container, replies: Replies) -> list[Drift]:
    """Key by key; ``replies`` of :func:`hostreads.image`, ``container_image`` and ``device_links``."""
    images = {
        key: docker.parse_image(found.text) if (found := reply(replies, key)).ok else None
        for key in (hostreads.IMAGE, hostreads.CONTAINER_IMAGE)
    }
    links = reply(replies, hostreads.DEVICE_LINKS)
    return drift(
        spec,
        container.raw,
        image=images[hostreads.CONTAINER_IMAGE],
        wanted_image=images[hostreads.IMAGE],
        links=parse_links(links.text) if links.ok else None,
    )
