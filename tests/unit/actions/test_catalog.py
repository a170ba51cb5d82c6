"""The catalog of actions names each action of the package, and no other."""

from __future__ import annotations

import pkgutil

from klops import actions
from klops.actions.catalog import GENERIC, OWN, actions_of, catalog


def test_every_action_of_the_package_is_in_it_under_its_name() -> None:
    found = {
        action.name: name
        for module in pkgutil.walk_packages(actions.__path__, prefix="klops.actions.")
        for name in [module.name.removeprefix("klops.actions.")]
        for action in actions_of(name)
    }
    assert found == {**GENERIC, **OWN}
    assert {name: action.name for name, action in catalog().items()} == {name: name for name in found}


def test_a_name_that_is_not_there() -> None:
    assert "no_such_module" not in catalog()
    assert len(catalog()) == len(GENERIC) + len(OWN)
