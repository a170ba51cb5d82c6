from __future__ import annotations

from typing import Annotated

import typer
from typer.testing import CliRunner

from klops.cli.arguments import verbosity, wants_json
from klops.cli.options import Common, HostsArgument, Output, host_command, split_commas
from klops.secret import Redactor


def parse(*argv: str, obj: object = None) -> tuple[list[str], bool, Common]:
    seen: list[tuple[list[str], bool, Common]] = []
    app = typer.Typer()

    @app.command()
    @host_command
    def command(
        hosts: HostsArgument, *, own: Annotated[bool, typer.Option("--own")] = False, common: Common
    ) -> None:
        seen.append((hosts, own, common))

    result = CliRunner().invoke(app, list(argv), obj=obj, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def test_common_options_arrive_as_one_value() -> None:
    redactor = Redactor()
    hosts, own, common = parse(
        "a", "p:!b", "--own", "-i", "x", "-i", "y", "-vv", "-e", "k=v", "--check", "--diff", "--forks", "3",
        "-o", "json", "--yes", "-k", obj=redactor,
    )  # fmt: skip
    assert (hosts, own) == (["a", "p:!b"], True)
    assert common == Common(
        ("x", "y"), True, True, 3, Output.JSON, 2, ("k=v",), True, ask_pass=True, redactor=redactor
    )
    assert common.redactor is redactor


def test_short_options_are_those_of_ansible_where_the_command_has_not_taken_them() -> None:
    _, _, common = parse("a", "-C", "-D", "-f", "3")
    assert (common.check, common.diff, common.forks) == (True, True, 3)
    seen: list[tuple[bool, int]] = []
    app = typer.Typer()

    @app.command()
    @host_command
    def command(*, follow: Annotated[bool, typer.Option("--follow", "-f")] = False, common: Common) -> None:
        seen.append((follow, common.forks))

    CliRunner().invoke(app, ["-f", "--forks", "2"], catch_exceptions=False)
    assert seen == [(True, 2)]


def test_defaults() -> None:
    _, own, common = parse("a")
    assert not own
    assert (common.inventory, common.check, common.forks, common.json) == ((), False, 16, False)


def test_json_is_wanted_before_the_line_is_parsed() -> None:
    assert wants_json(["up", "h", "-o", "json"])
    assert wants_json(["up", "--output=json"])
    assert wants_json(["up", "-ojson", "--no-such-option"])
    assert not wants_json(["up", "-o", "text"])
    assert not wants_json(["exec", "h", "--", "kubectl", "-o", "json"])
    assert not wants_json(["up", "-o"])
    assert not wants_json([])


def test_verbosity_is_counted_before_the_line_is_parsed() -> None:
    assert verbosity(["up", "-vv", "--verbose", "-v"]) == 4
    assert verbosity(["exec", "h", "--", "grep", "-v"]) == 0
    assert verbosity(["-version"]) == 0


def test_commas() -> None:
    assert split_commas(["a,b", " c ", ","]) == ("a", "b", "c")
    assert split_commas(None) == ()
