"""What the shared reads say: engine, container, agent and cards of one host. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from klops.actions.own import desired, hostreads, records
from klops.cards.evidence import driver
from klops.cards.identity import CONTROL_NODE
from klops.cards.record.form import readable
from klops.cards.record.presence import Missing, missing
from klops.cards.smi import Cards, assumed_cards, noted_minors, read_cards
from klops.cards.smi.query import parse_query
from klops.commands import docker, drift, fit, listing
from klops.errors import AgentError, DockerUnavailable, KlopsError, TaskFailed
from klops.remote.base import Replies, Reply
from klops.remote.reads import ABSENT
from klops.remote.rootreads import plain

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: What stands for a reply that was not asked for.
NOT_ASKED = Reply(rc=255, stderr=b"not asked")

_NODE = re.compile(r"/xpu(\d+)\Z")
#: Exit statuses of docker exec for a program that isn't there or can't be run: which, differs by version.
_NO_PROGRAM = (126, 127)

_HINTS = {
    "missing": "install Docker on the host",
    "denied": "add the user to the group docker on the host, or set klops.docker.sudo: true",
    "down": "start it: systemctl start docker",
}


def reply(replies: Replies, key: str) -> Reply:
    """The reply of that key, or one that says it was not asked."""
    return replies.get(key, NOT_ASKED)


def engine_error(replies: Replies, settings: Settings) -> KlopsError | None:
    """Why docker can't be used here; None when it can."""
    answer = reply(replies, hostreads.VERSION)
    problem = docker.engine_problem(answer.rc, answer.text, answer.error_text, sudo=settings.docker.sudo)
    if problem is None:
        return None
    hint = _HINTS[problem.kind]
    if problem.kind == "denied" and settings.docker.sudo:
        hint = "sudo asks for a password here: allow docker without one, or add the user to the group docker"
    if problem.kind == "down" and settings.docker.host:
        hint += f", or correct klops.docker.host ({settings.docker.host})"
    what = {
        "missing": "docker is not installed",
        "denied": "docker may not be used by this user",
        "down": "the docker engine does not answer",
    }[problem.kind]
    code = "docker-denied" if problem.kind == "denied" else "docker-unavailable"
    return DockerUnavailable(f"{what}: {problem.message}", hint=hint, code=code)


def cards_of(replies: Replies, settings: Settings, noted: Mapping[str, int] = {}) -> tuple[Cards, str]:
    """The cards and where they were asked for: ``host``, ``container``, or "" when they are only assumed.

    ``noted``: minors by PCI address.
    """
    machine_place, machine = placed(reply(replies, hostreads.SMI_MACHINE))
    query_place, query = placed(reply(replies, hostreads.SMI_QUERY))
    found = read_cards(machine, query, settings.cards.device_dir, noted)
    if found.cards:
        return found, query_place or machine_place
    count = max([settings.cards.expected, *(index + 1 for index in settings.cards.indexes)])
    return assumed_cards(count, settings.cards.device_dir), ""


def placed(answer: Reply) -> tuple[str, str]:
    """Place and text of a :class:`~klops.remote.reads.FirstRead`."""
    if not answer.ok:
        return "", ""
    place, _, text = answer.text.partition("\n")
    return place.strip(), text


@dataclass(frozen=True)
class HostView:
    """One host as the shared reads show it.

    ``agent`` is the agent's status, None when it can't be asked; ``agent_error`` then says what came instead.
    """

    engine: KlopsError | None
    container: docker.Container | None
    container_error: str = ""
    agent: Mapping[str, Any] | None = None
    agent_error: str = ""
    #: the interpreter of the settings, where it can't be started in the container; "" else
    no_python: str = ""
    cards: Cards = field(default_factory=Cards)
    cards_from: str = ""
    #: the record of an adopted container, whichever that was
    adoption: records.Adoption | None = None
    #: why such a record can't be read
    record_error: KlopsError | None = None
    #: the container on record as adopted, where it is not the one that the settings name
    elsewhere: docker.Container | None = None
    #: the name in the settings
    name: str = ""
    #: path in the container of nodes of the host, those of the cards and the control node; of those in it
    nodes: Mapping[str, str] = field(default_factory=dict)
    #: paths in the container of the nodes that the settings use
    used: frozenset[str] = frozenset()
    #: cards that the settings use and that xpu-smi doesn't show
    missing: Missing = field(default_factory=Missing)
    #: indexes of cards whose node isn't on the host
    nodeless: frozenset[int] = frozenset()
    #: nodes on the host that are no card's of xpu-smi, as that of a dead card; by number
    strays: tuple[str, ...] = ()
    #: verdict.json and baseline.json below the root; {} for none, None where it can't be read
    verdict: Mapping[str, Any] | None = field(default_factory=dict)
    baseline: Mapping[str, Any] | None = field(default_factory=dict)
    #: as :func:`klops.cards.evidence.driver.known` has it, and the kernel's; "" where they aren't known
    driver: str = ""
    boot_id: str = ""

    @property
    def made(self) -> bool:
        """Whether the container is one that klops made."""
        return self.container is not None and self.container.made

    @property
    def adopted(self) -> bool:
        """Whether the container is one that klops didn't make and runs units in: by id, not by name."""
        return (
            self.container is not None
            and not self.made
            and self.adoption is not None
            and self.adoption.id == self.container.id
        )

    @property
    def ours(self) -> bool:
        """Whether klops may work in the container."""
        return self.made or self.adopted

    @property
    def running(self) -> bool:
        """Whether the container runs."""
        return self.container is not None and self.container.state == "running"

    @property
    def at_rest(self) -> bool:
        """Whether surely no process of the container lives: one that is paused still holds all its cards."""
        return self.container is None or self.container.at_rest

    @property
    def units(self) -> Mapping[str, Mapping[str, Any]]:
        """Units by name, as the agent knows them; empty when it can't be asked."""
        units = (self.agent or {}).get("units")
        return units if isinstance(units, Mapping) else {}

    @property
    def learned(self) -> list[Mapping[str, Any]]:
        """Identities of the cards at an earlier time: when the host was good, or at its last diagnosis."""
        for document in (self.baseline, self.verdict):
            cards = (document or {}).get("cards")
            if isinstance(cards, list) and cards:
                return [card for card in cards if isinstance(card, Mapping)]
        return []

    @property
    def supervised(self) -> bool:
        """Whether a supervisor is at work."""
        return bool((self.agent or {}).get("supervisor"))

    @property
    def alone(self) -> bool:
        """Whether it is an adopted container whose units nobody looks after, as after its restart."""
        return self.adopted and self.running and self.agent is not None and not self.supervised

    @property
    def lost_access(self) -> tuple[tuple[str, str], ...]:
        """(node, error) of nodes that the settings use and that are listed in the container, but refused.

        Of those that the container was denied: a driver that is gone is told as a fault of the card. A node
        that the host calls otherwise has that name too.
        """
        return tuple((self._on_host(node), error) for node, error in self._denied() if node in self.used)

    @property
    def lost_spares(self) -> tuple[tuple[str, str], ...]:
        """The same of nodes that the settings leave out, and so of nobody's concern."""
        return tuple((self._on_host(node), error) for node, error in self._denied() if node not in self.used)

    def _denied(self) -> list[tuple[str, str]]:
        listed = (self.agent or {}).get("access") or ()
        return [
            (str(one.get("node")), str(one.get("error")))
            for one in listed
            if isinstance(one, Mapping) and one.get("fault") == "container"
        ]

    def _on_host(self, inside: str) -> str:
        name = posixpath.basename(inside)
        known = {path: node for node, path in self.nodes.items()}.get(inside, inside)
        return inside if posixpath.basename(known) == name else f"{inside} (the host's {known})"

    def lost_access_error(self, name: str) -> TaskFailed | None:
        """The error for a container of the host ``name`` that has lost devices; None when it hasn't."""
        if self.container is None or not self.lost_access:
            return None
        listed = "; ".join(f"{node} can't be opened inside: {error}" for node, error in self.lost_access)
        return TaskFailed(
            f"container {self.container.name} has lost the access to devices that are listed in it: "
            f"{listed}; that is a fault of the container, the cards are not at fault",
            code="device-access-lost",
            hint=f"docker restart {self.container.name} and klops status {name} show whether it has it back; "
            f"klops up {name} --recreate makes a new one",
        )

    @property
    def renamed(self) -> bool:
        """Whether what klops adopted is there under another name, and not put aside by klops itself."""
        if self.elsewhere is None or self.adoption is None:
            return False
        return self.elsewhere.name != records.aside_name(self.adoption.name, self.adoption.id)

    def trouble(self) -> KlopsError | None:
        """Why nothing can be done about the container; None when something can."""
        return self.unseen() or self.renamed_error()

    def renamed_error(self) -> TaskFailed | None:
        """The error for an adopted container that has another name than the settings; None when it hasn't."""
        found = self.elsewhere
        if found is None or not self.renamed:
            return None
        wanted = f"klops.container.name: {found.name}"
        if self.container is None:
            hint = f"docker rename {found.name} {self.name} gives it that name back; or set {wanted}"
        else:
            hint = f"set {wanted}; with that, klops down --remove lets go of it"
        return TaskFailed(
            f"the adopted container ({found.id[:12]}, {found.state}) is called {found.name} now, "
            f"not {self.name}",
            code="container-renamed",
            hint=hint,
        )

    def unseen(self) -> KlopsError | None:
        """Why nothing can be said about the container; None when something can."""
        if self.engine is not None:
            return self.engine
        if self.container_error:
            return TaskFailed(f"the container can't be inspected: {self.container_error}", code="container")
        return self.record_error

    def silent_agent(self) -> AgentError:
        """The error for an agent that doesn't answer in a container whose processes may live."""
        state = self.container.state if self.container is not None else "gone"
        said = self.agent_error or "no output"
        if self.container is not None and not self.ours:
            return AgentError(
                f"the container {self.container.name} ({self.container.id[:12]}) was neither made nor "
                f"adopted by klops, and no agent answers in it: {said}",
                hint="klops up adopts it, if it fits; docker rename gives its name free",
                code="container-foreign",
            )
        if state == "running" and self.no_python:
            return AgentError(
                f"the agent can't be asked: no {self.no_python} can be started in the container: {said}",
                hint="correct klops.container.python: it names the interpreter inside that vLLM runs with",
                code="image-python",
            )
        if state == "running":
            return AgentError(
                f"the agent in the container does not answer: {said}",
                hint="klops up puts the agent in place; docker logs shows what its launcher said",
            )
        name = self.container.name if self.container is not None else ""
        hint = f"docker unpause {name}" if state == "paused" else f"docker logs {name} shows why"
        text = f"the container is {state}, so its agent can't be asked: {said}"
        return AgentError(text, hint=hint, code="container-state")


def look(replies: Replies, settings: Settings) -> HostView:
    """Read the shared replies."""
    engine = engine_error(replies, settings)
    inspected = reply(replies, hostreads.CONTAINER)
    name = settings.container.name
    container = docker.parse_inspect(inspected.text, name) if inspected.ok else None
    container_error = ""
    if engine is None and not inspected.ok and not docker.no_such_container(inspected.error_text):
        container_error = _last_line(inspected.error_text) or f"docker inspect ended with {inspected.rc}"
    # where nothing has that name docker exec, too, takes it for the beginning of an id
    status = reply(replies, hostreads.STATUS) if container is not None else NOT_ASKED
    known = status.json() if status.stdout else None
    agent = known if status.ok and isinstance(known, dict) and "units" in known else None
    verdict, baseline = (_document(replies, key) for key in (hostreads.VERDICT, hostreads.BASELINE))
    verdict = verdict if verdict is not None and readable(verdict) else None
    boot_id = _boot(replies, agent)
    cards, place = cards_of(replies, settings, noted_minors((verdict, baseline), boot_id))
    nodes: Mapping[str, str] = {}
    links = reply(replies, hostreads.DEVICE_LINKS)
    if container is not None and links.ok:
        there = drift.parse_links(links.text)
        names = {
            *(card.node for card in cards.cards),
            # in the container the node of a card that xpu-smi no longer lists counts as any other
            *there,
            f"{settings.cards.device_dir.rstrip('/')}/{CONTROL_NODE}",
        }
        nodes = fit.inside_nodes(container.raw, sorted(names), there)
    adoption, record_error, elsewhere = None, None, None
    try:
        adoption = records.parse_adoption(reply(replies, hostreads.ADOPTED))
    except KlopsError as error:
        record_error = error
    if adoption is not None and (container is None or container.id != adoption.id):
        recorded = reply(replies, hostreads.ADOPTED_CONTAINER)
        elsewhere = docker.parse_inspect(recorded.text, adoption.id) if recorded.ok else None
    query = placed(reply(replies, hostreads.SMI_QUERY))[1]
    host = HostView(
        engine=engine,
        container=container,
        container_error=container_error,
        agent=agent,
        agent_error="" if agent is not None else _agent_says(status),
        no_python=settings.container.python if status.rc in _NO_PROGRAM else "",
        cards=cards,
        cards_from=place,
        adoption=adoption,
        record_error=record_error,
        elsewhere=elsewhere,
        name=name,
        nodes=nodes,
        used=frozenset(nodes.get(node, inside) for node, inside in desired.known_devices(settings, cards)),
        nodeless=_nodeless(replies, cards),
        strays=_strays(replies, cards),
        verdict=verdict,
        baseline=baseline,
        boot_id=boot_id,
        driver=driver.known(reply(replies, hostreads.DRIVER).text, parse_query(query).driver),
    )
    lost = missing(settings.cards.indexes, cards.cards, settings.cards.identities, host.learned)
    return replace(host, missing=lost)


def _nodeless(replies: Replies, cards: Cards) -> frozenset[int]:
    """Cards whose node isn't on the host, as far as that was looked at."""
    links, listed = reply(replies, hostreads.DEVICE_LINKS), reply(replies, hostreads.NODES)
    if links.ok:
        there = set(drift.parse_links(links.text))
    elif listed.text:
        there = set(listing.parse(listed.text))
    else:
        return frozenset()
    return frozenset(card.index for card in cards.cards if card.node not in there)


def _strays(replies: Replies, cards: Cards) -> tuple[str, ...]:
    known = {card.node for card in cards.cards}
    entries = listing.parse(reply(replies, hostreads.NODES).text)
    found = {path: _NODE.search(path) for path, entry in entries.items() if entry.type == "char"}
    numbered = {path: int(match[1]) for path, match in found.items() if match and path not in known}
    return tuple(sorted(numbered, key=numbered.__getitem__))


def _boot(replies: Replies, agent: Mapping[str, Any] | None) -> str:
    said = (agent or {}).get("boot_id")
    if said:
        return str(said)
    answer = reply(replies, hostreads.BOOT_ID)
    return answer.text.strip() if answer.ok else ""


def _document(replies: Replies, key: str) -> Mapping[str, Any] | None:
    """A file of klops' below the root; {} where there is none, None where it doesn't tell."""
    answer = plain(reply(replies, key))
    if answer.rc == ABSENT or key not in replies:
        return {}
    known = answer.json() if answer.ok else None
    schema = known.get("schema", 1) if isinstance(known, dict) else None
    return known if isinstance(schema, int) and schema <= records.SCHEMA else None


def _agent_says(status: Reply) -> str:
    known = status.json() if status.stdout else None
    error = known.get("error") if isinstance(known, dict) else None
    if isinstance(error, dict) and error.get("message"):
        return str(error["message"])
    return _last_line(status.error_text) or f"status {status.rc}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
