"""A secret shows itself to nobody who doesn't ask, and the redactor finds it where it slipped through."""

from __future__ import annotations

import base64
import json
import pickle
import re
import shlex
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given, settings
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


#: what programs do to a text that they put into another
QUOTINGS: dict[str, Callable[[str], str]] = {
    "shell": shlex.quote,
    "set -x": lambda text: "'" + text.replace("'", "'\\''") + "'",
    "json": json.dumps,
    "json with letters": lambda text: json.dumps(text, ensure_ascii=False),
    "repr": repr,
}
ENCODINGS: dict[str, Callable[[str], str]] = {
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url path": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "url twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "url in small letters": lambda text: re.sub(
        "%..", lambda found: found[0].lower(), urllib.parse.quote(text, safe="")
    ),
    "encodeURIComponent": lambda text: urllib.parse.quote(text, safe="!'()*"),
}
#: shows what surrounds a value, and is in none
values = st.text(
    st.characters(codec="utf-8", exclude_characters="QZ"), min_size=SHORTEST_REDACTED, max_size=40
)
awkward = st.text("'\"\\ab$ %\n\té", min_size=SHORTEST_REDACTED, max_size=12)


def redactor_of(*known: str) -> Redactor:
    redact = Redactor()
    for value in known:
        redact.add(Secret(value))
    return redact


def masks_whole(value: str, spell: Callable[[str], str]) -> bool:
    """Whether nothing is left between what stands around the value."""
    return f"Q{MASK}Z" in redactor_of(value)(spell(f" Q{value}Z "))


@settings(deadline=None, max_examples=50)
@given(values | awkward, st.lists(st.sampled_from(sorted(QUOTINGS)), max_size=3))
def test_the_redactor_finds_a_value_quoted_thrice(value: str, quotings: list[str]) -> None:
    def spell(text: str) -> str:
        for name in quotings:
            text = QUOTINGS[name](text)
        return text

    assert masks_whole(value, spell)


@settings(deadline=None, max_examples=50)
@given(values | awkward, st.sampled_from(["", *sorted(QUOTINGS)]), st.sampled_from(sorted(ENCODINGS)))
def test_the_redactor_finds_a_value_in_a_url(value: str, quoting: str, encoding: str) -> None:
    assert masks_whole(value, lambda text: ENCODINGS[encoding](QUOTINGS.get(quoting, str)(text)))


@settings(deadline=None, max_examples=50)
@given(values | awkward, st.binary(max_size=5), st.binary(max_size=5))
def test_the_redactor_finds_a_value_in_base64_whatever_stands_around_it(
    value: str, before: bytes, after: bytes
) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + value.encode() + after).decode()
        redacted = redactor_of(value)(text)
        assert MASK in redacted
        # no more than a few bits at each end
        left = len(redacted) - len(MASK) - len(encode(before)) - len(encode(after))
        assert left <= 4


def test_the_password_of_basic_authentication_is_masked() -> None:
    header = base64.b64encode(f"somebody:{VALUE}".encode()).decode()
    assert redactor_of(VALUE)(f"Authorization: Basic {header}").startswith(
        "Authorization: Basic c29tZWJvZHk6"
    )
    assert len(redactor_of(VALUE)(header)) < 24


@settings(deadline=None, max_examples=50)
@given(st.lists(values, min_size=2, max_size=4))
def test_each_line_of_a_secret_is_one(lines: list[str]) -> None:
    redact = redactor_of("\r\n".join(f"  {line}" for line in lines))
    for line in "\n".join(lines).splitlines():
        if len(line.strip()) >= SHORTEST_REDACTED:
            assert f"Q{MASK}Z" in redact(f"Q{line.strip()}Z")


def test_of_secrets_that_overlap_nothing_is_left() -> None:
    redact = redactor_of("abcdef", "defghijk", "cd-12")
    assert redact("<abcdefghijk> <cd-12> <abcdef>") == f"<{MASK}> <{MASK}> <{MASK}>"


def test_a_secret_is_found_as_often_as_it_is_there() -> None:
    redact = redactor_of("hunter22")
    assert redact("hunter22hunter22 hunter22") == f"{MASK}{MASK} {MASK}"


def test_bytes_that_are_no_utf8_are_masked_too() -> None:
    value = b"made-up-\xff-key".decode("utf-8", "surrogateescape")
    redact = redactor_of(value, "lone \ud800")
    assert redact(f"<{value}>") == f"<{MASK}>"
    assert redact(repr(value)) == f"'{MASK}'"


def test_a_log_is_read_quickly() -> None:
    redact = redactor_of(VALUE, "sk-0123456789", "another one; it's long")
    text = "INFO 12:00:00 engine: throughput 100+3 tokens/s, 'made-up' \"reqs\" 50% s\n" * 20_000
    began = time.perf_counter()
    assert redact(text) == text
    # 1.6 MB: some 0.1 s; without an expression made once it is minutes
    assert time.perf_counter() - began < 3


def test_a_short_or_empty_secret_does_not_mask_the_whole_log() -> None:
    redact = Redactor()
    redact.add(Secret(""))
    redact.add(Secret("a"))
    assert redact("a plain line about cards") == "a plain line about cards"
