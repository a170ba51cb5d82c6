"""JSON schema of inventories in YAML form."""

from __future__ import annotations

from collections.abc import Mapping

from klops.inventory import writing
from klops.inventory.connection import NAMES
from klops.inventory.settings import Settings
from klops.inventory.variables import SETTINGS
from klops.inventory.writing import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: A text with a template in it may stand for a value of any type.
_TEMPLATE: Schema = {"type": "string", "pattern": r"\{\{|\{%"}

#: What each typed setting means: section and key.
MEANINGS: Mapping[str, str] = {
    "Settings.root": "klops' folder on the host, mounted at the same path in the container",
    "Settings.docker": "how the host's Docker engine is asked",
    "Settings.cards": "the cards of the host, numbered as xpu-smi counts",
    "Settings.container": "the container that services run in",
    "Settings.source": "the source tree that is synced to the host",
    "Settings.stack": "Python packages and patches of the container",
    "Settings.generations": "what ran, to go back to",
    "Settings.services": "the services by name, one vllm serve each; with disjoint cards and different ports",
    "Settings.cleanup": "the scheduled clean-up",
    "Docker.host": "DOCKER_HOST of the engine; nothing: what the host itself uses",
    "Docker.sudo": "ask the engine through sudo -n docker",
    "Smi.where": "where xpu-smi runs",
    "Smi.path": "xpu-smi's name or path",
    "Cards.expected": "how many cards the host must have",
    "Cards.use": "indexes of the cards that may be used; nothing: all that are expected",
    "Cards.groups": "sets of cards that share full-speed links",
    "Cards.device_dir": "where the card nodes are",
    "Cards.smi": "how xpu-smi is run",
    "Cards.visible_env": "the variable that selects cards; the other two are removed",
    "Cards.min_tp": "the least tensor parallelism that tp: auto may come to",
    "Cards.identities": "uuid, serial or PCI address of the card that each index stands for",
    "Cards.baseline": "a file on the host that klops cards learn wrote; nothing: below the root",
    "Cards.max_age": "how long a verdict on the cards stays good: seconds, or 90s, 30m, 24h",
    "Cards.diagnose": "whether klops up tests cards that it knows too little of",
    "Cards.confirm": "failing diagnoses in a row until a card is kept out for longer than one start",
    "Cards.budget": "how long a diagnosis may take: seconds, or 10m",
    "Cards.probe": "how cards are tested",
    "Probe.sizes": "bytes of a message; nothing: what suits the backend",
    "Probe.rounds": "how often each size is measured",
    "Probe.tries": "how often a failed test is repeated",
    "Probe.needed": "of so many tries, how many have to fail",
    "Probe.backend": "of torch.distributed; auto: nccl where there are cards",
    "Probe.serial": "pairs one after another, where concurrent pairs share links",
    "Probe.start_timeout": "how long a rank may take to start: seconds, or 2m",
    "Probe.timeout": "how long a test may be silent",
    "Container.name": "the container's name",
    "Container.image": "the image; needed to make a container",
    "Container.image_archive": "a file on the host that docker load reads",
    "Container.python": "the image's interpreter, 3.8 or newer",
    "Container.volumes": "/HOST:/CONTAINER or /HOST:/CONTAINER:ro",
    "Container.env": "environment of the container",
    "Container.shm": "size of /dev/shm: 32g, 512m",
    "Container.ulimits": "limits by name: -1, SOFT or SOFT:HARD",
    "Container.runtime": "the engine's runtime",
    "Container.stop_timeout": "what the engine gives the container to stop: seconds, or 90s, 2m",
    "Container.pull": "when the image is fetched from its registry",
    "Container.recreate": "what is done about a container that differs from its settings",
    "Container.commit": "before it is made anew, keep what was written in the container as an image",
    "Source.repo": "a git repository of this machine; nothing: nothing is synced",
    "Source.ref": "a commit, branch or tag, or REV:PATH for a folder of it",
    "Source.dirty": "ship what isn't committed, too",
    "Source.targets": "where in the container the release is to be found",
    "Source.build": "commands run in the container before the release becomes the current one",
    "Source.keep": "how many releases are kept beside the current one",
    "Target.root": "an absolute path in the container that becomes a link to the release",
    "Target.package": "an installed package, as it is imported, that the release takes the place of",
    "Target.path": "the package's folder in the release; nothing: its name",
    "Target.place": "its folder in site-packages becomes a link, or PYTHONPATH has the release first",
    "Target.carry": "files of the installed package that the release lacks and a build takes over: *.so",
    "Build.commands": "commands for /bin/sh in a copy of the release",
    "Build.timeout": "how long they may take together: seconds, or 30m",
    "Build.env": "environment of the commands",
    "Build.installs": "distributions that the commands install in the container",
    "Stack.packages": "pinned distributions by name: a version, or {version, no_deps, check_filename}",
    "Stack.index_url": "where they are found; with a password in it a secret: {env: NAME}",
    "Stack.wheel_dir": "a folder of wheels in the container",
    "Stack.options": "further arguments of uv pip install",
    "Stack.timeout": "how long an installation may take: seconds, or 30m",
    "Stack.patches": "files of site-packages that are replaced or changed",
    "Package.version": "the version, and no other",
    "Package.no_deps": "without what it depends on",
    "Package.check_filename": "false: take a wheel whose file name isn't that of its metadata",
    "Patch.file": "the file, relative to site-packages",
    "Patch.copy": "a file of this machine that takes its place",
    "Patch.diff": "a unified diff, a file of this machine",
    "Patch.test": "a command in the container; when it fails, the file is put back",
    "Generations.rollback": "going back by itself when services don't get healthy",
    "Generations.keep": "how many are kept to go back to",
    "Service.model": "the model's absolute path in the container",
    "Service.port": "the port it listens on",
    "Service.served_name": "the name under /v1/models; nothing: the service's name",
    "Service.api_key": "a secret: {env: NAME}, {file: PATH}, {command: [PROGRAM, ARGUMENT]} or itself",
    "Service.tp": "tensor parallelism: a number of cards, or auto",
    "Service.cards": "indexes of its cards in the order of the ranks; nothing: chosen",
    "Service.args": "flags of vllm serve without dashes; true: the bare flag, false or nothing: left out",
    "Service.env": "environment of the service",
    "Service.env_script": "a script in the container that is sourced before the start",
    "Service.start_timeout": "how long it may take until it is ready: seconds, or 30m",
    "Service.stall_timeout": "how long nothing may move while requests run, until it counts as stalled",
    "Service.restart": "when a service that ended is started again",
    "Service.stop_timeout": "how long the server has after TERM: seconds, at most 80",
    "Service.min_shm": "room in /dev/shm without which it is not started: 32m, 8g; 0: not looked at",
    "Service.smoke": "ready only after a short completion was answered",
    "Restart.policy": "whether it is started again at all",
    "Restart.delay": "seconds before the first new start; it doubles",
    "Restart.max_delay": "the longest such delay in seconds",
    "Restart.limit": "failures within the window after which it is given up",
    "Restart.window": "the window in seconds",
    "Cleanup.schedule": "when: five fields of cron, or a word such as @hourly",
    "Cleanup.scheduler": "what runs it; auto is cron, none nothing",
    "Cleanup.grace": "how long a process must have lived to be taken for an orphan by it",
}

_ARGUMENTS = "arguments of ssh: -J user@jump, -o ProxyJump=..., -o NAME=VALUE"
_CONNECTION: Mapping[str, tuple[Schema, str]] = {
    "address": (writing.NAME, "the host's address; nothing: its name"),
    "port": (writing.whole(1, 65535), "the port of sshd"),
    "user": (writing.NAME, "who logs in"),
    "password": (writing.TEXT, "the password of that user; better in KLOPS_SSH_PASSWORD"),
    "key": (writing.NAME, "a private key of this machine"),
    "key_passphrase": (
        writing.TEXT,
        "that key's pass phrase; better in KLOPS_SSH_KEY_PASSPHRASE",
    ),
    "kind": (writing.NAME, "ssh, or local for this machine itself"),
    "args": (writing.TEXT, _ARGUMENTS),
    "common_args": (writing.TEXT, _ARGUMENTS),
    "extra_args": (writing.TEXT, _ARGUMENTS),
    "timeout": ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "seconds to wait for a connection"),
    "become": (writing.TEXT, "whether commands run as another user"),
    "become_method": (writing.NAME, "sudo"),
    "become_user": (writing.NAME, "the user that commands run as; nothing: root"),
    "become_password": (writing.TEXT, "sudo's password; better in KLOPS_BECOME_PASSWORD"),
}


def inventory_schema() -> Schema:
    """The schema of an inventory in YAML form, in draft 2020-12."""
    return {
        "$schema": DIALECT,
        "title": "inventory of klops",
        "description": "groups by name, each with hosts, vars and children",
        "type": ["object", "null"],
        "propertyNames": {"not": {"const": "plugin"}},
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": {"group": _group(), "host": _host(), **_definitions()},
    }


def _group() -> Schema:
    priority = {**writing.whole(-1_000_000, 1_000_000), "description": "at equal depth the higher one wins"}
    return {
        "description": "a group",
        "type": ["object", "null"],
        "properties": {
            "hosts": _named("#/$defs/host", "hosts by name; NAME[01:08] stands for several"),
            "children": _named("#/$defs/group", "groups below this one, by name"),
            "vars": {
                "description": "variables of all hosts of the group",
                "anyOf": [
                    {"$ref": "#/$defs/variables", "properties": {"ansible_group_priority": priority}},
                    {"type": "null"},
                ],
            },
        },
        "additionalProperties": False,
    }


def _named(reference: str, description: str) -> Schema:
    return {
        "description": description,
        "type": ["object", "string", "null"],
        "additionalProperties": {"$ref": reference},
    }


def _host() -> Schema:
    return {"description": "variables of a host", "anyOf": [{"$ref": "#/$defs/variables"}, {"type": "null"}]}


def _definitions() -> Schema:
    settings = Settings.model_json_schema(ref_template="#/$defs/{model}")
    models = {**settings.pop("$defs"), "Settings": settings}
    found: Schema = {name: _section(name, model) for name, model in models.items()}
    found["template"] = {**_TEMPLATE, "description": "a text with a template in it"}
    connection = {
        name: _described(_or_template(schema), text)
        for what, (schema, text) in _CONNECTION.items()
        for name in NAMES[what]
    }
    found["variables"] = {
        "description": "variables by name; any may be set, those of klops and of the connection are typed",
        "type": "object",
        "propertyNames": {"pattern": r"^[^\W\d]\w*$"},
        "properties": {SETTINGS: _optional({"$ref": "#/$defs/Settings"}), **connection},
    }
    return found


def _section(name: str, model: Schema) -> Schema:
    """A model's schema: sections and collections may be empty, and any value may be a template.

    Nothing is required: settings merge key by key over groups and hosts.
    """
    properties = {
        key: _described(_property(schema), MEANINGS[f"{name}.{key}"])
        for key, schema in model.get("properties", {}).items()
    }
    kept = {key: value for key, value in model.items() if key == "additionalProperties"}
    text = str(model.get("description", "")).partition("\n")[0]
    return {"description": text, "type": "object", "properties": properties, **kept}


def _property(schema: Schema) -> Schema:
    plain = {key: value for key, value in schema.items() if key not in ("title", "default", "description")}
    default = {"default": schema["default"]} if schema.get("default") is not None else {}
    if "$ref" in plain:
        return {**_or_template(_optional(plain)), **default}
    found = _inside(plain)
    if plain.get("type") in ("array", "object"):
        found = _optional(found)
    return {**_or_template(found), **default}


def _inside(schema: Schema) -> Schema:
    """A collection's schema, whose items may be templates."""
    found = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _or_template(_inside(found[key]))
    if "anyOf" in found:
        found["anyOf"] = [_inside(one) for one in found["anyOf"]]
    return found


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _or_template(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"$ref": "#/$defs/template"}]}


def _described(schema: Schema, text: str) -> Schema:
    return {"description": text, **schema}
