from __future__ import annotations

from klops.errors import HostKeyRejected, KlopsError, Location, Mistake, SourceErrors, UsageError
from klops.ui.faults import describe, document, next_command, snippet

MISTAKE = Mistake(Location("inv.yml", 3, 7), "unknown key contaner", "nearest: container")


def test_every_mistake_is_shown_with_its_line_and_a_caret_under_its_column() -> None:
    other = Mistake(Location("inv.yml", 9, 1), "second")
    text = describe(SourceErrors([other, MISTAKE]), lines=lambda file, line: f"      line {line} of {file}")
    assert text == (
        "error: 2 mistakes; nothing was run\n"
        "inv.yml:3:7: unknown key contaner\n"
        "    3 |       line 3 of inv.yml\n"
        "      |       ^\n"
        "  fix: nearest: container\n"
        "inv.yml:9:1: second\n"
        "    9 |       line 9 of inv.yml\n"
        "      | ^"
    )


def test_a_mistake_without_a_readable_line_has_no_snippet() -> None:
    assert snippet(MISTAKE, "") == ""
    assert "|" not in describe(SourceErrors([Mistake(Location("/no/such/file", 2, 1), "gone")]))


def test_an_error_is_followed_by_its_fix() -> None:
    assert describe(UsageError("no host demo9", hint="did you mean demo1?")) == (
        "error: no host demo9\n  fix: did you mean demo1?"
    )
    assert describe(KlopsError("plain")) == "error: plain"


def test_json_of_a_command_that_failed_as_a_whole() -> None:
    assert document(UsageError("wrong", hint="right")) == {
        "ok": False,
        "hosts": {},
        "error": {"code": "usage", "message": "wrong", "hint": "right"},
    }
    mistakes = document(SourceErrors([MISTAKE]))["error"]["mistakes"]
    assert mistakes == [
        {
            "file": "inv.yml",
            "line": 3,
            "column": 7,
            "message": "unknown key contaner",
            "hint": "nearest: container",
        }
    ]


def test_an_unknown_host_key_leads_to_hosts_trust() -> None:
    assert next_command(HostKeyRejected("unknown key"), "demo1") == "klops hosts trust demo1"


def test_of_a_very_long_line_what_is_around_the_mistake_is_shown() -> None:
    line = "a" * 1_000_000 + "X" + "b" * 1_000_000
    shown, caret = snippet(Mistake(Location("a.json", 1, 1_000_001), "wrong"), line).splitlines()
    assert len(shown) < 500
    assert shown[caret.index("^")] == "X"
    assert len(snippet(Mistake(Location("a.json", 1), "wrong"), line)) < 500


def test_a_line_that_is_shown_holds_no_password() -> None:
    line = "h1 ansible_password=s3cret ansible_port=x"
    shown, caret = snippet(Mistake(Location("hosts", 1, line.index("x") + 1), "wrong"), line).splitlines()
    assert "s3cret" not in shown
    assert shown[caret.index("^")] == "x"
