"""Is the interpreter of the settings one that klops and vLLM can use? Asked before anything relies on it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.commands import docker, images
from klops.commands.containerspec import ContainerSpec
from klops.errors import KlopsError, TaskFailed

#: What the agent needs at least.
LEAST = (3, 8)
_MARK = "klops-python "
#: Old enough for a Python 2, which can say best what it is. Anything may go wrong in the import of a library
#: that is broken.
_CODE = f"""\
import json, sys
try:
    import psutil
    found, why = psutil.__version__, ""
except Exception as e:
    found, why = None, "%s: %s" % (type(e).__name__, e)
about = dict(version=list(sys.version_info[:3]), psutil=found, why=why)
sys.stdout.write("{_MARK}" + json.dumps(about) + "\\n")
"""
#: Arguments after the interpreter: isolated, so that it finds its own packages and nobody else's.
ARGS = ("-I", "-B", "-c", _CODE)
#: Exit status with which docker says that a command of a container could not be started.
_NOT_RUN = (126, 127)
_DOCKER_FAILED = 125
#: Seconds that a start of the container may take: the first of an image may have to unpack it.
_TIMEOUT = 180.0
#: Seconds within which an engine that was left alone has made what it was told to make.
_SETTLED = 3.0


def judge(rc: int, stdout: str, stderr: str, *, python: str, where: str) -> KlopsError | None:
    """What the answer of ``PYTHON *ARGS`` says: None when klops can use it.

    ``where`` names the image or container. Codes: ``image-python`` when it is missing, too old or no Python,
    ``image-psutil`` when it lacks psutil, ``image-check`` when docker could not ask it.
    """
    hint = f"set klops.container.python to the Python 3.8 or newer of {where}"
    said = images.said(stderr) or images.said(stdout) or f"status {rc}"
    line = next((line for line in stdout.splitlines() if line.startswith(_MARK)), "")
    if rc == 0 and line:
        return _judge_known(json.loads(line[len(_MARK) :]), python, where, hint)
    missing = rc in _NOT_RUN or (rc == _DOCKER_FAILED and "exec:" in stderr)
    if rc == _DOCKER_FAILED and not missing:
        return TaskFailed(
            f"{python} of {where} can't be asked: {said}",
            code="image-check",
            hint="docker info and docker images, on the host, tell more",
        )
    if missing:
        return TaskFailed(f"{where} has no {python} that runs: {said}", code="image-python", hint=hint)
    return TaskFailed(f"{python} of {where} is no Python 3: {said}", code="image-python", hint=hint)


def _judge_known(known: Mapping[str, Any], python: str, where: str, hint: str) -> KlopsError | None:
    version = tuple(known["version"])
    text = ".".join(map(str, version))
    if version[:2] < LEAST:
        least = ".".join(map(str, LEAST))
        return TaskFailed(
            f"{python} of {where} is Python {text}, and {least} or newer is needed",
            code="image-python",
            hint=hint,
        )
    if known["psutil"] is None:
        return TaskFailed(
            f"{python} of {where} (Python {text}) has no psutil, so it isn't the one vLLM runs with: "
            f"{known['why']}",
            code="image-psutil",
            hint="set klops.container.python to that one: head -1 $(command -v vllm) names it",
        )
    return None


@dataclass(frozen=True)
class CheckPython(Step):
    """Ask the interpreter of a container to be made, in a helper container that goes at once."""

    changes: ClassVar[bool] = False

    docker: tuple[str, ...]
    spec: ContainerSpec

    def change(self) -> Change:
        """The interpreter and the image."""
        return Change(f"check {self.spec.command[0]} of {self.spec.image}")

    def carry_out(self, ctx: Context) -> None:
        """Raises the error of :func:`judge`."""
        python, image = self.spec.command[0], self.spec.image
        ctx.progress(Progress(f"checking {python} of {image}"))
        name = f"{self.spec.name}.check-{secrets.token_hex(4)}"
        argv = images.try_out(self.docker, self.spec, name, *ARGS)
        try:
            done = ctx.remote.run(argv, timeout=_TIMEOUT, check=False)
        except KlopsError:
            self._sweep(ctx, name)
            raise
        error = judge(done.rc, done.text, done.error_text, python=python, where=f"the image {image}")
        if error is not None:
            raise error

    def _sweep(self, ctx: Context, name: str) -> None:
        """Remove the helper of a run that was ended: one that had not started yet doesn't go by itself.

        The engine may make it a moment after its client is gone. A clone asks, which an interrupt leaves be.
        """
        remote = ctx.remote.clone()
        try:
            until = time.monotonic() + _SETTLED
            while time.monotonic() < until:
                there = remote.run(docker.inspect(self.docker, name), check=False, timeout=_SETTLED)
                if there.rc == 0:
                    remote.run((*self.docker, "rm", "--force", name), check=False, timeout=_SETTLED)
                    return
                time.sleep(0.2)
        except KlopsError:
            # the host is away or the engine hangs: what was wrong in the first place says more
            return
        finally:
            remote.close()
