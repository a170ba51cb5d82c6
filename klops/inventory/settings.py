"""The typed settings of a host: everything under the variable ``klops``.

All models are frozen and refuse unknown keys. Durations are seconds, sizes are docker's text. A quoted whole
number counts as a whole number as long as it is decimal digits; text is kept exactly as written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic import WithJsonSchema as Written

from klops.errors import UsageError
from klops.inventory import scalars, writing
from klops.inventory.secretforms import UNUSABLE, api_key
from klops.secret import Redactor, Secret

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_VOLUME = r"/[^:]*:/[^:]*(:(ro|rw))?"
_ULIMIT = r"-1|[0-9]+(:(-1|[0-9]+))?"

# What the second annotation takes is what may be written; the third says it to editors.
Text = Annotated[str, BeforeValidator(scalars.text), Written(writing.TEXT)]
Name = Annotated[str, BeforeValidator(scalars.name), Written(writing.NAME)]
OptionalText = Annotated[
    str | None,
    BeforeValidator(scalars.optional(scalars.name)),
    Written(writing.optional(writing.NAME)),
]
Flag = Annotated[bool, BeforeValidator(scalars.flag), Written(writing.FLAG)]
Index = Annotated[int, BeforeValidator(scalars.between(0, 255)), Written(writing.whole(0, 255))]
Count = Annotated[int, BeforeValidator(scalars.between(1, 256)), Written(writing.whole(1, 256))]
Seconds = Annotated[float, BeforeValidator(scalars.seconds), Written(writing.DURATION)]
PositiveSeconds = Annotated[float, BeforeValidator(scalars.positive_seconds), Written(writing.DURATION)]
AbsolutePath = Annotated[str, BeforeValidator(scalars.absolute), Written(writing.ABSOLUTE)]
Root = Annotated[str, BeforeValidator(scalars.folder), Written(writing.ABSOLUTE)]
OptionalPath = Annotated[
    str | None,
    BeforeValidator(scalars.optional(scalars.absolute)),
    Written(writing.optional(writing.ABSOLUTE)),
]
ApiKey = Annotated[
    Secret | None,
    BeforeValidator(scalars.optional(api_key)),
    Written(writing.optional(writing.SECRET)),
]
EnvName = Annotated[str, BeforeValidator(scalars.matching(_VARIABLE, "a variable's name"))]
ContainerName = Annotated[
    str,
    BeforeValidator(scalars.matching(_NAME, "a container's name")),
    Written(writing.matching(_NAME)),
]
ServiceName = Annotated[str, BeforeValidator(scalars.matching(_NAME, "a service's name"))]
Volume = Annotated[
    str,
    BeforeValidator(scalars.matching(_VOLUME, "a volume", "write /HOST:/CONTAINER or /HOST:/CONTAINER:ro")),
    Written(writing.matching(_VOLUME)),
]
Ulimit = Annotated[
    str,
    BeforeValidator(scalars.matching(_ULIMIT, "a limit", "write -1, SOFT or SOFT:HARD")),
    Written(writing.matching(_ULIMIT)),
]

#: Flags of vllm serve that klops itself writes, and the setting that stands for each.
OWN_FLAGS = {
    "tensor-parallel-size": "tp",
    "tp": "tp",
    "port": "port",
    "api-key": "api_key",
    "served-model-name": "served_name",
    "model": "model",
    "host": "",
}
_FLAG = scalars.matching(
    r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a flag of vllm serve", "write it without the leading dashes"
)


def _arg_name(value: Any) -> str:
    flag = _FLAG(value)
    own = OWN_FLAGS.get(flag.replace("_", "-"))
    if own:
        scalars.refuse(f"klops writes --{flag} itself", f"use the setting {own} of the service")
    if own == "":
        scalars.refuse(f"klops writes --{flag} itself", "delete it")
    return flag


def _arg_scalar(value: Any) -> str | bool | None:
    if value is None:
        return None
    found = scalars.written(value, "text, a number, true, false or a list")
    reading = getattr(value, "value", value)
    if isinstance(reading, bool):
        if found.lower() not in ("true", "false"):
            scalars.refuse(
                f"{found} is text here and {reading} in YAML 1.1", f'write "{found}", true or false'
            )
        return reading
    return found


def _arg_value(value: Any) -> Any:
    if isinstance(value, list):
        return [scalars.text(item) for item in value]
    return _arg_scalar(value)


def _auto_or_count(value: Any) -> Any:
    if getattr(value, "text", value) == "auto":
        return "auto"
    return scalars.between(1, 256)(value)


def _model_path(value: Any) -> str:
    found = scalars.name(value)
    if not found.startswith("/"):
        # problem E4: vLLM takes a relative path for the name of a model on a hub
        scalars.refuse(
            f"expected the model's absolute path in the container, found {found!r}",
            "problem E4: vLLM would look a relative path up on a hub and fail with HFValidationError",
        )
    return found


class Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Docker(Section):
    """How the host's Docker engine is asked."""

    #: DOCKER_HOST of the engine; None: what the host itself uses
    host: OptionalText = None
    sudo: Flag = False


class Smi(Section):
    """Where xpu-smi runs."""

    where: Annotated[
        Literal["auto", "host", "container"], BeforeValidator(scalars.one_of("auto", "host", "container"))
    ] = "auto"
    path: Name = "xpu-smi"


VisibleEnv = Literal["XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES"]


class Cards(Section):
    """The cards of the host. Numbers are indexes as xpu-smi counts them."""

    expected: Count = 8
    #: the cards klops may use; None: all that are expected
    use: list[Index] | None = None
    groups: list[list[Index]] = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]
    device_dir: AbsolutePath = "/dev"
    smi: Smi = Smi()
    visible_env: Annotated[
        VisibleEnv,
        BeforeValidator(
            scalars.one_of("XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "XPULINK_VISIBLE_DEVICES")
        ),
    ] = "XPU_VISIBLE_DEVICES"
    min_tp: Count = 1
    baseline: OptionalText = None
    #: seconds a verdict on cards stays good
    max_age: PositiveSeconds = 86400.0

    @property
    def indexes(self) -> list[int]:
        """The cards klops may use, in order."""
        return list(range(self.expected)) if self.use is None else sorted(self.use)


class Container(Section):
    """The container that services run in."""

    name: ContainerName = "klops"
    #: needed to make a container
    image: OptionalText = None
    #: a file on the host that `docker load` reads
    image_archive: OptionalPath = None
    python: Name = "python3"
    #: "/HOST:/CONTAINER" or "/HOST:/CONTAINER:ro"
    volumes: list[Volume] = []
    env: dict[EnvName, Text] = {}
    shm: Annotated[str, BeforeValidator(scalars.size), Written(writing.SIZE)] = "32g"
    ulimits: dict[Name, Ulimit] = {}
    runtime: OptionalText = None
    stop_timeout: PositiveSeconds = 120.0
    #: when the image is fetched from its registry
    pull: Annotated[
        Literal["never", "missing", "always"], BeforeValidator(scalars.one_of("never", "missing", "always"))
    ] = "missing"
    recreate: Annotated[Literal["report", "allow"], BeforeValidator(scalars.one_of("report", "allow"))] = (
        "report"
    )
    #: before a container is made anew, keep the old one's writable layer as an image
    commit: Flag = False


class Source(Section):
    """The source tree that is synced to the host."""

    repo: OptionalText = None
    ref: Name = "HEAD"
    targets: list[AbsolutePath] = []
    build: OptionalText = None
    keep: Count = 3


class Stack(Section):
    """Python packages and patches of the container."""

    packages: list[Name] = []
    index_url: OptionalText = None
    wheel_dir: OptionalPath = None
    patches: list[Name] = []


class Restart(Section):
    """When a service that ended is started again: at most ``limit`` times in ``window`` seconds."""

    policy: Annotated[Literal["always", "never"], BeforeValidator(scalars.one_of("always", "never"))] = (
        "always"
    )
    delay: Seconds = 1.0
    max_delay: Seconds = 60.0
    limit: Annotated[
        int, BeforeValidator(scalars.between(0, 1_000_000)), Written(writing.whole(0, 1_000_000))
    ] = 5
    window: PositiveSeconds = 600.0


ArgValue = Annotated[str | bool | list[str] | None, BeforeValidator(_arg_value), Written(writing.ARGUMENT)]


class Service(Section):
    """One `vllm serve`."""

    #: absolute path in the container
    model: Annotated[str, BeforeValidator(_model_path), Written(writing.ABSOLUTE)]
    port: Annotated[int, BeforeValidator(scalars.between(1, 65535)), Written(writing.whole(1, 65535))] = 8000
    #: None: the service's name
    served_name: OptionalText = None
    api_key: ApiKey = None
    tp: Annotated[Literal["auto"] | int, BeforeValidator(_auto_or_count), Written(writing.AUTO_OR_COUNT)] = (
        "auto"
    )
    cards: list[Index] | None = None
    #: flag without dashes -> text; True: the bare flag; False, None: left out; a list: values after one flag
    args: dict[Annotated[str, BeforeValidator(_arg_name)], ArgValue] = {}
    env: dict[EnvName, Text] = {}
    env_script: OptionalPath = None
    start_timeout: PositiveSeconds = 1800.0
    restart: Restart = Restart()
    stop_timeout: PositiveSeconds = 30.0
    smoke: Flag = True


class Cleanup(Section):
    """The scheduled clean-up."""

    schedule: Name = "*/10 * * * *"
    scheduler: Annotated[
        Literal["auto", "cron", "systemd"], BeforeValidator(scalars.one_of("auto", "cron", "systemd"))
    ] = "auto"


class Settings(Section):
    """All of klops' settings of one host."""

    root: Root = "/var/lib/klops"
    docker: Docker = Docker()
    cards: Cards = Cards()
    container: Container = Container()
    source: Source = Source()
    stack: Stack = Stack()
    services: dict[ServiceName, Service] = {}
    cleanup: Cleanup = Cleanup()

    def resolve_secrets(self, redactor: Redactor) -> None:
        """Read every secret now and teach it to ``redactor``.

        One that can't be had is passed over: whoever looks at a service or stops it needs no key, and a value
        that nobody has can't turn up in a text. :meth:`missing_secrets` tells about it where it is needed.
        """
        for service in self.services.values():
            if service.api_key is not None:
                with contextlib.suppress(UsageError):
                    redactor.add(service.api_key)

    def missing_secrets(self, names: Collection[str]) -> list[UsageError]:
        """For each of these services whose secret can't be had: which setting, why, and what to do.

        Codes: ``secret-missing``, and ``secret-unusable`` for one that is there and can't be a key.
        """
        found: list[UsageError] = []
        for name in names:
            secret = self.services[name].api_key
            try:
                if secret is not None:
                    secret.reveal()
            except UsageError as error:
                code = error.code if error.code == UNUSABLE else "secret-missing"
                text = f"klops.services.{name}.api_key: {error.message}"
                found.append(UsageError(text, hint=error.hint, code=code))
        return found
