"""What a supervisor keeps of a unit on disk: state, specification, secrets and lineage; reading and writing.

No file that is damaged, gone or of a newer klops keeps a unit from being watched or stopped.
"""

from __future__ import annotations

import os
import time
from typing import Any, Collection, NamedTuple

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.digests import secret_digest
from klops.agent.errors import INTERNAL, VerbError
from klops.agent.processes import procs
from klops.agent.processes.access import Access
from klops.agent.trouble import Troubles, reason, say
from klops.agent.units import ondisk, recovery, released, report, unit
from klops.agent.units.lineage import Lineage
from klops.agent.units.memory import Memory
from klops.agent.units.unit import Policy, Record, Seen


class Surroundings(NamedTuple):
    """What a unit needs of its supervisor."""

    paths: store.Paths
    audit: Audit
    #: the package file to run gates from
    package: str
    umask: int
    #: pids that belong to no unit
    never: Collection[int]
    #: wakes the loop, from any thread
    wake: Any
    #: exit status (as of waitpid) by pid of children that were reaped
    exits: dict[int, int]
    home: str
    troubles: Troubles
    access: Access
    memory: Memory
    #: klops made the container: nobody shares its /dev/shm
    made: bool = False


class Kept:
    """The files of one unit."""

    def __init__(self, name: str, around: Surroundings) -> None:
        """Reads the lineage; :meth:`read_spec` and :meth:`read_state`, in this order, read the rest."""
        self.name = name
        self.around = around
        self.record = Record(name)
        self.lineage = Lineage(around.paths.lineage(name))
        self.spec: dict[str, Any] | None = None
        self.secret: dict[str, Any] | None = None
        self.policy = Policy()
        #: a state that this agent can't read and must not replace: nothing begins, a stop works. Or the
        #: supervisor met an error: until the state is read again what is in memory may be half of a step
        self.refusal: VerbError | None = None
        #: what is wrong with specification or secrets: nothing begins, what runs goes on unchecked
        self.fault: VerbError | None = None
        #: why the state on disk is an old one; "" when it isn't
        self.unwritten = ""
        self._saved: dict[str, Any] = {}
        if self.lineage.damaged:
            say(f"{self.lineage.path}: {len(self.lineage.damaged)} line(s) can't be read and are passed over")

    def read_spec(self) -> None:
        """Take the specification and the secrets from disk; ``fault`` says what is wrong with them."""
        paths = self.around.paths
        self.spec, spec_fault = ondisk.attempt(ondisk.spec, paths, self.name)
        self.secret, secret_fault = ondisk.attempt(ondisk.secret, paths, self.name)
        self.fault = spec_fault or secret_fault
        self.policy = Policy.of(self.spec or {})

    def read_state(self) -> None:
        """Take the state from disk, or make it anew from what lives; ``refusal``: it can't be used."""
        path = self.around.paths.state(self.name)
        found, self.refusal = ondisk.attempt(ondisk.record, self.around.paths, self.name)
        seen = Seen(now=time.monotonic(), clock=time.time())
        processes = procs.table()
        if found is None and (self.refusal is not None or self.lineage.living(processes)):
            why = self.refusal.message if self.refusal else f"{path} is missing"
            if self.refusal is not None and self.refusal.code == ondisk.DAMAGED:
                self.refusal = None
                self.attempt(f"{path} can't be set aside", lambda: store.set_aside(path))
                why = f"{why}; it is {path}{store.ASIDE} now"
            say(f"{self.name}: {why}")
            running = report.launched_with(self.spec or {}, self.secret)
            found = recovery.rebuilt(
                self.name, self.lineage, processes, running, seen, why, replaced=self.refusal is None
            )
            found.home = self.around.home
        self.record = found or Record(self.name)
        unit.taken_over(self.record)
        if self.record.home != self.around.home:
            unit.new_home(self.record, self.around.home, seen.now, seen.clock)
        self._keep_root()

    def _keep_root(self) -> None:
        """Have the root in the lineage, also when its line was lost."""
        root = self.record.root
        if root is not None and (root[0], root[1]) not in self.lineage.members:
            process = procs.read(root[0])
            if process is not None and process.start == root[1]:
                self.lineage.notice(process, self.record.generation)

    @property
    def fallen(self) -> bool:
        """Whether the supervisor could not go on with it."""
        return self.refusal is not None and self.refusal.code == INTERNAL

    @property
    def removed(self) -> bool:
        """Whether nothing is on disk but, maybe, members in other namespaces, for a clean-up to find."""
        paths = self.around.paths
        files = (paths.spec(self.name), paths.secret(self.name), paths.state(self.name))
        # of one whose damaged files were set aside just now there is a record that says so
        known = self.record.state != unit.STOPPED or bool(self.lineage.members)
        return not known and not any(map(os.path.lexists, files))

    @property
    def changed(self) -> bool:
        """Whether what runs was launched with other settings than those on disk, or on other code."""
        running = self.record.running
        now = report.launched_with(self.spec or {}, self.secret)
        had = running.get("secret")
        if had and self.secret and secret_digest(had["salt"], self.secret["secrets"]) == had["digest"]:
            now["secret"] = had  # the same secrets with another salt
        other = released.outdated(
            self.around.paths.root, self.spec, self.record.release, self.record.packages
        )
        return bool(running != now) or other

    def write_state(self) -> None:
        """Write the record, if it differs from what is on disk. Raises ``OSError``."""
        dump = self.record.dump()
        if dump != self._saved and self.refusal is None:
            try:
                store.write_json(self.around.paths.state(self.name), dump)
            except OSError as error:
                self.unwritten = reason(error)
                raise
            self._saved = dump
        self.unwritten = ""

    def save(self) -> None:
        """Write down all that isn't on disk yet. What can't be written is tried again at the next look."""
        for what, write in (("state", self.write_state), ("lineage", self._write_lineage)):
            self.attempt(f"{self.name}: its {what} can't be written", write)

    def _write_lineage(self) -> None:
        self.lineage.write()
        self.lineage.shorten()

    def attempt(self, trouble: str, action: Any) -> None:
        """Do what may fail for want of room; the trouble is said once, and when it is over."""
        try:
            action()
        except OSError as error:
            self.around.troubles.met(trouble, error)
        else:
            self.around.troubles.over(trouble)
