"""What a unit finds in its environment, and who wins."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from klops.agent.errors import VerbError
from klops.agent.units import environment


def script(folder: Path, text: str | bytes) -> str:
    """A script file."""
    path = folder / "set env.sh"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


BASE = {"PATH": os.defpath, "KEEP": "1", "DROP": "2", "odd.name": "kept too"}


def test_an_assignment_without_export_counts_and_unset_does_too(tmp_path: Path) -> None:
    path = script(
        tmp_path, 'USE_ORI_ROPE=1\nunset DROP\nTEXT=\'two\nlines = "$KEEP"\'\nREAD="$KEEP"\necho noise\n'
    )
    env = environment.run_script(path, BASE)
    assert env == {
        "PATH": os.defpath,
        "KEEP": "1",
        "odd.name": "kept too",
        "USE_ORI_ROPE": "1",
        "TEXT": 'two\nlines = "$KEEP"',
        "READ": "1",
    }


def test_a_script_is_read_by_the_shell_it_names(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    text = "#!/usr/bin/env bash\nlist=(a b)\nLAST=${list[1]}\nhelper() { :; }\n[[ -e /nowhere ]] && X=1\n"
    env = environment.run_script(script(tmp_path, text), BASE)
    assert env["LAST"] == "b"
    assert not [name for name in env if name.startswith("BASH_FUNC")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"export A=1\r\nexport B=2\r\n", "has Windows line ends (CR LF)"),
        (b"if true; then\n", "is no valid sh script"),
        (b"A=1\nexit 0\n", "ended the shell (status 0)"),
        (b"set -e\nfalse\n", "ended the shell (status 1)"),
    ],
)
def test_a_bad_script_is_refused_by_name(tmp_path: Path, text: bytes, message: str) -> None:
    path = script(tmp_path, text)
    with pytest.raises(VerbError, match=r"set env\.sh") as caught:
        environment.run_script(path, BASE)
    assert message in caught.value.message
    assert path in caught.value.message
    assert caught.value.hint


def test_a_missing_script_is_refused_by_name() -> None:
    with pytest.raises(VerbError, match=r"/no/such\.sh: No such file"):
        environment.run_script("/no/such.sh", BASE)


def test_selection_wins_over_the_script_and_secrets_come_last() -> None:
    select = environment.selection("XPU_VISIBLE_DEVICES", [2, 3])
    script_done = {"XPU_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "CUDA_VISIBLE_DEVICES": "0", "A": "1"}
    env = environment.compose(script_done, select, {"VLLM_API_KEY": "k"})
    assert env == {"XPU_VISIBLE_DEVICES": "2,3", "A": "1", "VLLM_API_KEY": "k"}
    assert (
        environment.compose(script_done, environment.selection("XPU_VISIBLE_DEVICES", []), {}) == script_done
    )


def test_the_program_is_looked_for_beside_the_interpreter_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("venv", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "vllm").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv" / "python3"))
    assert environment.find_program("vllm", str(tmp_path / "path")) == str(tmp_path / "venv" / "vllm")
    (tmp_path / "venv" / "vllm").chmod(0o644)
    assert environment.find_program("vllm", f"/nowhere:{tmp_path}/path") == str(tmp_path / "path" / "vllm")
    with pytest.raises(VerbError, match="neither beside"):
        environment.find_program("vllm", "/nowhere")


@pytest.mark.parametrize("folder", ["openai", "launchers"])
def test_flags_are_passed_where_the_installed_vllm_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python3"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").touch(mode=0o755)
    argv = ["vllm", "serve", "/m"]
    assert environment.with_known_flags(argv, 30) == argv
    source = tmp_path / "lib" / "python3.10" / "site-packages" / "vllm" / "engine" / "arg_utils.py"
    source.parent.mkdir(parents=True)
    source.write_text("parser.add_argument('--port')")
    assert environment.with_known_flags(argv, 30) == argv
    source.write_text("'--shutdown-timeout',")
    assert environment.with_known_flags(argv, 30) == [*argv, "--shutdown-timeout", "20"]
    for mine in ([*argv, "--shutdown-timeout=5"], [*argv, "--shutdown-timeout", "5"], ["/bin/server", "-x"]):
        assert environment.with_known_flags(mine, 30) == mine
    source = source.parents[1] / "entrypoints" / folder / "cli_args.py"
    source.parent.mkdir(parents=True)
    source.write_text("    disable_access_log_for_endpoints: str | None = None")
    added = [*argv, "--shutdown-timeout", "20", "--disable-access-log-for-endpoints", "/health,/metrics"]
    assert environment.with_known_flags(argv, 30) == added
    mine = [*argv, "--shutdown-timeout", "5", "--disable_uvicorn_access_log"]
    assert environment.with_known_flags(mine, 30) == mine
