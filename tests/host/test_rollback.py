"""Going back: by itself from a release whose service doesn't get healthy, and by ``klops rollback``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klops.sim.layout import SERVICE
from tests.host import sources
from tests.host.sources import PACKAGE, Ground, asked_all_the_time, package
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

RAISES = "raise ImportError('undefined symbol: xpu_free')\n"
HANGS = "import time\ntime.sleep(1000)\n"


@pytest.fixture(scope="module")
def ground(make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A host whose service is ready on release 1."""
    with sources.ground(make_rehearsal, tmp_path_factory.mktemp("source"), service=True) as made:
        made.settings({"source": {"targets": [{"package": PACKAGE}]}})
        made.repo.commit(package("1"))
        made.object("up")
        yield made


def plugin(ground: Ground) -> str:
    """The version of the package that the service has imported last."""
    lines = (ground.host.root / "log" / f"{SERVICE}.log").read_text(errors="replace").splitlines()
    return [line.split("plugin ")[1].split()[0] for line in lines if "plugin " in line][-1]


# One story, in this order.


def test_a_sync_restarts_the_service_on_the_new_release(ground: Ground) -> None:
    first = ground.status()
    assert (first["state"], first["release"], plugin(ground)) == ("ready", ground.current.name, "1")
    ground.repo.commit(package("2"))
    said = ground.sync()
    now = ground.status()
    assert now["pid"] != first["pid"]
    assert (now["state"], now["release"], plugin(ground)) == ("ready", said["release"], "2")
    assert ground.answers()


def test_a_broken_release_goes_back_by_itself_and_serves_again_under_load(ground: Ground) -> None:
    good, number = ground.current.name, ground.object("releases")["generation"]
    ground.repo.commit(package("3", more=RAISES))
    with asked_all_the_time(ground) as counts:
        until(lambda: counts()[0] > 0, what="it answers")
        error = ground.fails("sync")
        assert ground.answers()
        answered = counts()[0]
        until(lambda: counts()[0] > answered + 20, what="it goes on answering")
    assert error["code"] == "rolled-back"
    assert f"generation {number} serves again" in error["message"]
    assert SERVICE in error["message"]
    now = ground.status()
    assert (ground.current.name, now["release"], now["state"]) == (good, good, "ready")
    assert plugin(ground) == "2"
    listed = ground.object("releases")
    assert (listed["current"], listed["generation"]) == (good, number)
    bad, last = listed["generations"][:2]
    assert [bad["health"], last["health"]] == ["bad", "good"]
    assert (last["number"], last["release"]) == (number, good)
    assert bad["release"] != good
    assert SERVICE in bad["error"]


@pytest.mark.long
def test_back_to_a_generation_by_its_number_and_forth(ground: Ground) -> None:
    listed = ground.object("releases")
    oldest = listed["generations"][-1]
    assert oldest["health"] == "good"
    done = ground.object("rollback", "--to", str(oldest["number"]))
    assert done["source"]["release"] == oldest["release"] == ground.current.name
    assert (done["services"][SERVICE]["state"], plugin(ground)) == ("ready", "1")
    assert ground.answers()
    assert ground.fails("rollback", "--to", "999")["code"] == "no-generation"


@pytest.mark.long
def test_one_that_hangs_in_its_start_is_given_up_and_goes_back(ground: Ground) -> None:
    """What stands was gone back to by hand, and is what is gone back to."""
    good = ground.current.name
    ground.settings({"services": {SERVICE: {"start_timeout": 3}}})
    ground.repo.commit(package("4", more=HANGS))
    error = ground.fails("up")
    assert error["code"] == "rolled-back"
    now = ground.status()
    assert (ground.current.name, now["release"], now["state"]) == (good, good, "ready")
    assert plugin(ground) == "1"


@pytest.mark.long
def test_where_it_is_not_to_go_back_it_stays_and_the_first_error_is_told(ground: Ground) -> None:
    ground.settings({"generations": {"rollback": "never"}})
    error = ground.fails("sync")
    assert error["code"] != "rolled-back"
    assert ground.current.name == ground.object("sync", "--check")["release"]
    assert ground.status()["state"] != "ready"
    ground.object("rollback")
    assert (ground.status()["state"], plugin(ground)) == ("ready", "1")


@pytest.mark.long
def test_a_sync_that_put_nothing_in_place_goes_back_from_nothing(ground: Ground) -> None:
    """A service that was stopped stays stopped, and a release that was synced meanwhile stays current."""
    ground.object("down")
    ground.repo.commit(package("5"))
    now = ground.sync()["release"]
    ground.repo.commit(package("6"))
    ground.settings({"source": {"build": {"commands": ["exit 7"]}}, "generations": {"rollback": "auto"}})
    error = ground.fails("sync")
    ground.settings({"source": {"build": None}})
    assert error["code"] == "build-failed"
    assert ground.current.name == now
    assert ground.status()["state"] == "stopped"
