"""A secret shows itself to nobody who doesn't ask, and the redactor finds it where it slipped through."""

from __future__ import annotations

import base64
import json
import pickle
import shlex
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.secret import MASK, SHORTEST_REDACTED, Redactor, Secret

VALUE = "made-up 'key' with \"quotes\", a $PATH and a back\\slash"


def test_no_spelling_of_a_secret_shows_it() -> None:
    secret = Secret(VALUE)
    for text in (
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>20}",
        " ".join([str(secret)]),
        repr({"k": [secret]}),
    ):
        assert "made-up" not in text
        assert MASK in text


def test_a_secret_is_neither_json_nor_pickled() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret(VALUE))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(VALUE))


def test_equal_by_value_so_that_a_changed_secret_is_a_change() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret(VALUE + " ")
    assert Secret(VALUE) != VALUE


def test_it_has_no_hash_that_would_contradict_that() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Secret(VALUE))


def test_a_deferred_secret_is_loaded_once_and_late() -> None:
    loads = []

    def load() -> str:
        loads.append(1)
        return VALUE

    secret = Secret(load=load, source="command pass")
    assert loads == []
    assert secret.reveal() == secret.reveal() == VALUE
    assert loads == [1]


@given(st.text(min_size=SHORTEST_REDACTED, max_size=40))
def test_the_redactor_finds_every_spelling(value: str) -> None:
    redact = Redactor()
    redact.add(Secret(value))
    for spelling in (
        value,
        shlex.quote(value),
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        urllib.parse.quote(value, safe=""),
        base64.b64encode(value.encode("utf-8", "surrogatepass")).decode(),
    ):
        assert value not in redact(f"a {spelling} b").replace(MASK, "")
        assert MASK in redact(f"a {spelling} b")


def test_a_short_or_empty_secret_does_not_mask_the_whole_log() -> None:
    redact = Redactor()
    redact.add(Secret(""))
    redact.add(Secret("a"))
    assert redact("a plain line about cards") == "a plain line about cards"
