"""Services that run on another release or on other packages than a start would give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from klops.actions.base import Plan, Seen
from klops.actions.own.hostview import HostView
from klops.actions.own.services.action import ServicesAction, ServicesParams, Synced
from klops.actions.own.services.code import other_code
from klops.actions.own.source.looking import TREE, TreeLook
from klops.inventory.settings import Source
from tests.unit.actions_klops.generationsworld import World, standing, told

DIGEST = "dacaa557cedfe5237d175f77a7240680776b32d5ea1e1f2bb7747ab29a3f9b89"
ON = {"source": {"paths": [""]}}


def host(current: str | None = "b", packages: str = "") -> HostView:
    """A host whose agent says what is current."""
    agent = {"units": {}, "release": {"current": current, "commit": None}, "packages": packages}
    return HostView(engine=None, container=None, agent=agent)


@pytest.mark.parametrize(
    ("unit", "spec", "why"),
    [
        ({"state": "ready", "release": "a"}, ON, "release a -> b"),
        ({"state": "starting", "release": "a"}, ON, "release a -> b"),
        # started by a supervisor that knew of none
        ({"state": "ready"}, ON, "release none -> b"),
        ({"state": "ready", "release": "b"}, ON, ""),
        # a start takes what is there by then
        ({"state": "failed", "release": None}, ON, ""),
        ({"state": "backoff", "release": "a"}, ON, ""),
        # it runs on none
        ({"state": "ready", "release": None}, {}, ""),
        ({"state": "ready", "release": "b", "packages": "p"}, ON, "packages changed"),
    ],
)
def test_what_differs(unit: dict[str, Any], spec: dict[str, Any], why: str) -> None:
    assert other_code(host(), unit, spec) == why


def test_packages_that_klops_changed_are_for_all_units() -> None:
    assert other_code(host(packages="p"), {"state": "ready", "packages": ""}, {}) == "packages changed"
    assert other_code(host(packages="p"), {"state": "ready", "packages": "p"}, {}) == ""


def test_an_agent_of_an_older_klops_knows_nothing_of_either() -> None:
    old = HostView(engine=None, container=None, agent={"units": {}})
    assert other_code(old, {"state": "ready"}, ON) == ""


def test_a_dry_run_goes_by_the_release_that_would_be_there() -> None:
    unit = {"state": "ready", "release": "b"}
    assert other_code(host(), unit, ON, "c") == "release b -> c"


def plan(world: World, *, check: bool = False, local: Mapping[str, object] = {}, **params: Any) -> Plan:
    """The plan of ``klops.services``."""
    view = world.view(check=check)
    return ServicesAction().plan(ServicesParams(**params), view, Seen(world.replies(), local=local))


def ready(**changes: Any) -> World:
    """A host whose service is what the settings ask for."""
    world = World(now=standing())
    world.main = {"release": None, "digest": DIGEST, **changes}
    return world


def test_renewed_is_what_runs_on_other_code() -> None:
    assert plan(ready(), state="renewed").steps == ()
    _, start, wait = told(plan(ready(packages="old"), state="renewed"))
    assert start.startswith("restart main (ready, pid 4020; packages changed): vllm serve")
    assert wait == "wait until main is ready"
    # and so it is for an up
    assert told(plan(ready(packages="old")))[1] == start


@pytest.mark.parametrize("desired", ["stopped", "running"])
def test_what_nobody_wants_to_run_is_not_renewed(desired: str) -> None:
    world = ready(desired=desired, state="stopped" if desired == "stopped" else "failed", cpid=None)
    steps = told(plan(world, state="renewed"))
    # one that failed may work by now
    assert [step.split(":")[0] for step in steps[1:2]] == ([] if desired == "stopped" else ["start main"])


@pytest.mark.parametrize("state", ["ready", "unhealthy"])
def test_one_whose_api_server_is_gone_is_started_whatever_it_is_still_called(state: str) -> None:
    steps = told(plan(ready(state=state, cpid=None)))
    begun = [step.split(":")[0] for step in steps if step.startswith(("start", "restart"))]
    assert begun == [f"restart main ({state}, but its API server is gone)"]
    assert not [step for step in told(plan(ready(state=state))) if step.startswith(("start", "restart"))]


def test_without_a_service_the_cards_are_not_looked_at() -> None:
    def keys(state: Any) -> set[str]:
        return {read.key for read in ServicesAction().probe(ServicesParams(state=state), world.view()).reads}

    world = ready()
    assert {"smi.q", "pids", "agent.status"} <= keys("renewed")
    world.settings = world.settings.model_copy(update={"services": {}})
    assert keys("renewed") == set()
    made = ServicesAction().plan(ServicesParams(state="renewed"), world.view(), Seen())
    assert (made.steps, made.message) == ((), "no service is to run")
    # those that are to go may hold cards
    assert "smi.q" in keys("running")


def test_only_a_dry_run_looks_at_the_source() -> None:
    world = ready()
    world.settings = world.settings.model_copy(update={"source": Source(repo="/repo")})
    params = ServicesParams(state="renewed", synced=Synced(ref="v1"))
    assert ServicesAction().probe(params, world.view()).local == {}
    (look,) = ServicesAction().probe(params, world.view(check=True)).local.values()
    assert isinstance(look, TreeLook)
    assert (look.ref, look.dirty) == ("v1", False)
    tree = SimpleNamespace(release=SimpleNamespace(name="new"))
    world.main["release"] = "a"
    steps = told(plan(world, check=True, local={TREE: tree}, state="renewed", synced={}))
    assert "; release a -> new)" in steps[1]
