"""The typed settings of a host: everything under the variable ``klops``.

All models are frozen and refuse unknown keys. Durations are seconds, sizes are docker's text. A quoted whole
number counts as a whole number as long as it is decimal digits; text is kept exactly as written. All sections
stand in one file, as in the documents: who looks for a setting finds it here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import WithJsonSchema as Written

from klops.errors import UsageError
from klops.inventory import scalars, writing
from klops.inventory.secretforms import UNUSABLE, api_key, beside, index_url, uv_option
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
#: A key of a mapping by cards: YAML reads the number of an unquoted one.
CardKey = Annotated[int, BeforeValidator(scalars.between(0, 255))]
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
_PACKAGE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
_DISTRIBUTION = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"[A-Za-z0-9][A-Za-z0-9.!+_-]*"
_REF = r"[^-\s].*"

Distribution = Annotated[
    str,
    BeforeValidator(scalars.matching(_DISTRIBUTION, "a distribution's name", "such as vllm or xpu-smi")),
    Written(writing.matching(_DISTRIBUTION)),
]
Version = Annotated[
    str,
    BeforeValidator(scalars.matching(_VERSION, "a version", "write it alone, such as 0.19.0")),
    Written(writing.matching(_VERSION)),
]
#: A path below a folder that is known by itself: no leading slash, no ``..``.
Within = Annotated[str, BeforeValidator(scalars.within), Written(writing.NAME)]
Ref = Annotated[
    str,
    BeforeValidator(scalars.matching(_REF, "a commit, branch or tag")),
    Written(writing.matching(_REF)),
]
IndexUrl = Annotated[
    str | Secret | None,
    BeforeValidator(scalars.optional(index_url)),
    Written(writing.optional(writing.SECRET)),
]
LocalFile = Annotated[
    str | None,
    BeforeValidator(scalars.optional(beside)),
    Written(writing.optional(writing.NAME)),
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


class Probe(Section):
    """How cards are tested: collectives of ranks, whose values are checked and whose time is taken."""

    #: bytes of a message a rank; None: what suits the backend
    sizes: list[
        Annotated[int, BeforeValidator(scalars.between(4, 2**34)), Written(writing.whole(4, 2**34))]
    ] | (None) = None
    #: measured at each size
    rounds: Count = 10
    #: a test that fails is repeated; it counts as failed that fails ``needed`` times of ``tries``
    tries: Count = 3
    needed: Count = 2
    backend: Annotated[
        Literal["auto", "nccl", "gloo"], BeforeValidator(scalars.one_of("auto", "nccl", "gloo"))
    ] = "auto"
    #: pairs one after another, where concurrent pairs share links
    serial: Flag = False
    #: seconds for a rank to start and to answer
    start_timeout: PositiveSeconds = 120.0
    timeout: PositiveSeconds = 20.0


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
    #: index -> uuid, serial or PCI address of the card that it was when this was written
    identities: dict[CardKey, Name] = {}
    #: what `klops cards learn` wrote, a file on the host; None: baseline.json below the root
    baseline: OptionalPath = None
    #: seconds a verdict on cards stays good
    max_age: PositiveSeconds = 86400.0
    #: whether `klops up` tests cards of which it has no good verdict before it starts a service on them
    diagnose: Annotated[Literal["auto", "never"], BeforeValidator(scalars.one_of("auto", "never"))] = "auto"
    #: failing diagnoses in a row until a card is kept out of service for longer than one start
    confirm: Count = 2
    #: seconds that a diagnosis may take, whatever hangs
    budget: PositiveSeconds = 600.0
    probe: Probe = Probe()

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


class Target(Section):
    """One place in the container at which the release is to be found: a root, or an installed package."""

    #: becomes a link to the current release
    root: Annotated[
        str | None,
        BeforeValidator(scalars.optional(scalars.link_place)),
        Written(writing.optional(writing.ABSOLUTE)),
    ] = None
    #: as it is imported; its folder in site-packages becomes a link into the current release
    package: Annotated[
        str | None,
        BeforeValidator(scalars.optional(scalars.matching(_PACKAGE, "a package's name, as import takes it"))),
        Written(writing.optional(writing.matching(_PACKAGE))),
    ] = None
    #: the package's folder in the release; None: its name with slashes for dots
    path: Annotated[
        str | None,
        BeforeValidator(scalars.optional(scalars.within)),
        Written(writing.optional(writing.NAME)),
    ] = None
    place: Annotated[
        Literal["site-packages", "pythonpath"],
        BeforeValidator(scalars.one_of("site-packages", "pythonpath")),
    ] = "site-packages"
    #: files of the installed package that the release lacks and a build takes over, such as *.so
    carry: list[Within] = []

    @property
    def folder(self) -> str:
        """The package's folder in the release, with slashes; "" for a root."""
        return self.path or (self.package or "").replace(".", "/")


class Build(Section):
    """What is run in the container, in a copy of the release, before it becomes the current one."""

    commands: list[Name] = []
    #: seconds for all of them
    timeout: PositiveSeconds = 1800.0
    env: dict[EnvName, Text] = {}
    #: distributions that the commands install in the container
    installs: list[Distribution] = []


class Source(Section):
    """The source tree that is synced to the host."""

    #: a git repository of this machine; None: nothing is synced
    repo: OptionalText = None
    #: REV, or REV:PATH for a folder of it
    ref: Ref = "HEAD"
    #: ship what isn't committed, too
    dirty: Flag = False
    targets: list[Target] = []
    build: Build = Build()
    #: releases kept beside the current one
    keep: Count = 3


class Package(Section):
    """One pinned distribution."""

    version: Version
    no_deps: Flag = False
    #: False: a wheel whose file name isn't that of its metadata is taken all the same
    check_filename: Flag = True


class Patch(Section):
    """One file of site-packages that is replaced, or changed by a diff."""

    #: relative to site-packages, or absolute within it
    file: Annotated[str, BeforeValidator(scalars.file_within), Written(writing.NAME)]
    #: a file of this machine that takes its place; ``copy`` where it is written
    copy_from: LocalFile = Field(default=None, alias="copy")
    #: a unified diff, a file of this machine
    diff: LocalFile = None
    #: run in the container after it; when it fails, the file is put back
    test: OptionalText = None


def _package(value: Any) -> Any:
    return value if isinstance(value, dict | Package) else {"version": value}


class Stack(Section):
    """Python packages and patches of the container."""

    #: a version, or a mapping
    packages: dict[
        Annotated[str, BeforeValidator(scalars.matching(_DISTRIBUTION, "a distribution's name"))],
        Annotated[Package, BeforeValidator(_package), writing.Also(writing.matching(_VERSION))],
    ] = {}
    index_url: IndexUrl = None
    #: a folder of wheels in the container
    wheel_dir: OptionalPath = None
    #: further arguments of uv pip install
    options: list[Annotated[str, BeforeValidator(uv_option), Written(writing.NAME)]] = []
    #: seconds for all that is installed at a time
    timeout: PositiveSeconds = 1800.0
    patches: list[Patch] = []


class Generations(Section):
    """What ran: release, stack, patches and units as one, to go back to."""

    #: whether an up or sync whose services don't get healthy goes back by itself
    rollback: Annotated[Literal["auto", "never"], BeforeValidator(scalars.one_of("auto", "never"))] = "auto"
    keep: Count = 10


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
    stall_timeout: PositiveSeconds = 120.0
    restart: Restart = Restart()
    stop_timeout: PositiveSeconds = 30.0
    #: half of what docker gives a container: room for one service of all cards, and for a second beside it
    min_shm: Annotated[str, BeforeValidator(scalars.size), Written(writing.SIZE)] = "32m"
    smoke: Flag = True


class Cleanup(Section):
    """The scheduled clean-up."""

    #: five fields of cron, or a word such as @hourly
    schedule: Annotated[str, BeforeValidator(scalars.schedule), Written(writing.NAME)] = "*/10 * * * *"
    #: auto: a file of /etc/cron.d for root, else the user's crontab; none: nothing is touched
    scheduler: Annotated[
        Literal["auto", "cron", "systemd", "none"],
        BeforeValidator(scalars.one_of("auto", "cron", "systemd", "none")),
    ] = "auto"
    #: seconds a process must have lived before a scheduled clean-up takes it for an orphan
    grace: Seconds = 60.0


class Settings(Section):
    """All of klops' settings of one host."""

    root: Root = "/var/lib/klops"
    docker: Docker = Docker()
    cards: Cards = Cards()
    container: Container = Container()
    source: Source = Source()
    stack: Stack = Stack()
    generations: Generations = Generations()
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
        if isinstance(self.stack.index_url, Secret):
            with contextlib.suppress(UsageError):
                redactor.add(self.stack.index_url)
                password = urlsplit(self.stack.index_url.reveal()).password
                if password:
                    redactor.add(Secret(password))

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
