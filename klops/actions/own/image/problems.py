"""What went wrong while an image came, told apart. Pure."""

from __future__ import annotations

from klops.commands import images
from klops.errors import DockerUnavailable, KlopsError, TaskFailed

_NO_SPACE = "no space left on device"


def pull_error(image: str, rc: int, text: str, *, present: bool = False) -> KlopsError:
    """The error of a pull that ended with ``rc``; ``text`` is all that docker said.

    ``present``: there is an image of that name to go on with.
    """
    said = images.said(text) or f"status {rc}"
    kind = images.pull_trouble(text)
    registry = images.registry(image)
    login = f"docker login {registry}, on the host as the user that klops runs docker as"
    if kind == "engine":
        return DockerUnavailable(f"the docker engine went away while it pulled {image}: {said}")
    codes = {
        "space": ("disk-full", "docker's disk is full", "docker system df shows what can go"),
        "denied": ("image-denied", f"{registry} asks for a login", login),
        "denied-or-missing": (
            "image-denied",
            f"{registry} has no such repository, or asks for a login",
            f"correct klops.container.image, or {login}",
        ),
        "missing": (
            "image-missing",
            f"{registry} has no such image",
            "correct klops.container.image, or bring it there",
        ),
        "unreachable": (
            "registry-unreachable",
            f"{registry} can't be reached from the host",
            "systemctl show docker -p Environment tells its proxy; else set klops.container.image_archive",
        ),
    }
    code, why, hint = codes.get(kind, ("image-pull", "docker says no", f"docker pull {image}, on the host"))
    if present:
        hint += "; klops.container.pull: missing goes on with the image that is there"
    return TaskFailed(f"{image} could not be pulled, {why}: {said}", code=code, hint=hint)


def load_error(path: str, rc: int, text: str) -> KlopsError:
    """The error of a load that ended with ``rc``; ``text`` is all that docker said."""
    said = images.said(text) or f"status {rc}"
    if images.pull_trouble(text) == "engine":
        return DockerUnavailable(f"the docker engine went away while it loaded {path}: {said}")
    if _NO_SPACE in text.lower():
        return TaskFailed(
            f"docker's disk filled up while {path} was loaded: {said}",
            code="disk-full",
            hint="docker system df shows what can go",
        )
    return TaskFailed(
        f"{path} could not be loaded, it is damaged or no archive of an image: {said}",
        code="image-archive",
        hint="docker save IMAGE -o FILE makes one; what docker export made is a container's files, for "
        "docker import",
    )


def wrong_archive(path: str, image: str, loaded: list[str]) -> TaskFailed:
    """The error for an archive that held other images than the wanted one."""
    names = ", ".join(loaded) or "nothing that docker names"
    return TaskFailed(
        f"{path} was loaded, and holds {names}, not {image}",
        code="image-missing",
        hint="set klops.container.image to what the archive holds, or give it that name: "
        f"docker tag {loaded[0] if loaded else 'ID'} {image}",
    )
