"""The scratch hosts: three addresses of one sshd, each with a folder that is made anew before every run."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path
from typing import Any

HOSTS = ("h1", "h2", "h3")
STANDINS = Path(__file__).parent / "standins"
#: Only Ansible needs it; that of the system, because other users can run it too.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable

INVENTORY = """\
all:
  vars:
    ansible_python_interpreter: {python}
    ansible_connection: {connection}
    ansible_port: {port}
    ansible_user: {user}
    ansible_ssh_private_key_file: {key}
    ansible_ssh_common_args: >-
      -F none -o UserKnownHostsFile={known_hosts} -o GlobalKnownHostsFile=none -o IdentitiesOnly=yes
    scratch: "{{{{ oracle_root }}}}/{{{{ inventory_hostname }}}}"
    shared: "{{{{ oracle_root }}}}/shared"
    everywhere: all
    level: all
  hosts:
    h1: {{ansible_host: 127.0.0.1, klops: {{root: {state}/h1}}, rank: 1, level: h1}}
    h2: {{ansible_host: 127.0.0.2, klops: {{root: {state}/h2}}, rank: 2}}
    h3: {{ansible_host: 127.0.0.3, klops: {{root: {state}/h3}}, rank: 3}}
  children:
    web:
      hosts: {{h1: , h2: }}
      vars: {{level: web, colour: green}}
    db:
      hosts: {{h3: }}
      vars: {{level: db}}
    site:
      children: {{web: , db: }}
      vars: {{colour: grey}}
"""

APP_CONF = """\
# application
[server]
host = 0.0.0.0
port = 8000
#debug = false

[log]
level = info
file = /var/log/app.log
"""


def make_root(root: Path, extra: Path | None = None) -> None:
    """``root``/HOST for every host from the same seed, and ``root``/shared, which all of them see.

    ``extra`` is a folder of a playbook's own that is laid over each host's.
    """
    shutil.rmtree(root, ignore_errors=True)
    (root / "shared").mkdir(parents=True)
    for host in HOSTS:
        _seed(root / host)
        if extra is not None and extra.is_dir():
            shutil.copytree(extra, root / host, dirs_exist_ok=True)


def _seed(top: Path) -> None:
    for folder in ("etc", "bin", "data/sub", "odd"):
        (top / folder).mkdir(parents=True)
    texts = {
        "etc/app.conf": APP_CONF,
        "etc/noeol.conf": "first\nlast line without an end",
        "etc/crlf.ini": "one\r\ntwo\r\nthree\r\n",
        "etc/empty": "",
        "etc/block.conf": "top\n# BEGIN ANSIBLE MANAGED BLOCK\nold\n# END ANSIBLE MANAGED BLOCK\nbottom\n",
        "data/café.txt": "naïve – 模型 ✓\n",
        "data/sub/deep.txt": "deep\n",
        "odd/a b.txt": "space\n",
        "odd/quote'd.txt": "quote\n",
        "odd/$HOME;x.txt": "dollar\n",
        "odd/-dash.txt": "dash\n",
        "bin/tool": '#!/bin/sh\nprintf "tool %s\\n" "$*"\nexit 0\n',
    }
    for name, text in texts.items():
        (top / name).write_text(text, "utf-8", newline="")
        (top / name).chmod(0o644)
    (top / "bin/tool").chmod(0o755)
    (top / "data/blob.bin").write_bytes(bytes(range(256)) * 16)
    (top / "data/blob.bin").chmod(0o640)
    (top / "link").symlink_to("etc/app.conf")
    (top / "dangling").symlink_to("nowhere")
    os.link(top / "data/sub/deep.txt", top / "data/hard.txt")
    (top / "data/pack.tar.gz").write_bytes(gzip.compress(_tar(), mtime=0))


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as pack:
        for name, text, mode in (("pack/readme", "read me\n", 0o644), ("pack/run.sh", "#!/bin/sh\n", 0o755)):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(text), mode, 1_600_000_000
            pack.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def files(root: Path) -> dict[str, dict[str, Any]]:
    """Everything below ``root`` by path: kind, mode, owner, content; the root itself as ``<root>``."""
    found: dict[str, dict[str, Any]] = {}
    # fetch makes the whole path of a file again below its own folder
    inner = root.relative_to("/")
    above = {str(folder) for folder in inner.parents}
    for path in sorted(root.rglob("*")):
        shown = str(path.relative_to(root)).replace(str(inner), "<root>")
        if any(f"/{shown}".endswith(f"/{folder}") for folder in above):
            continue
        status = path.lstat()
        entry: dict[str, Any] = {"owner": f"{status.st_uid}:{status.st_gid}"}
        if stat.S_ISLNK(status.st_mode):
            entry |= {"kind": "link", "target": str(path.readlink()).replace(str(root), "<root>")}
        else:
            entry["mode"] = f"{stat.S_IMODE(status.st_mode):04o}"
            entry["kind"] = "folder" if stat.S_ISDIR(status.st_mode) else "file"
            if stat.S_ISREG(status.st_mode):
                entry["content"] = _content(path, root)
        found[shown] = entry
    return found


def times(root: Path) -> dict[str, tuple[int, int, int]]:
    """Inode, size and time of change of everything below ``root``: equal when nothing was written there."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(root))] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found


def _content(path: Path, root: Path) -> str:
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8").replace(str(root), "<root>")
    except UnicodeDecodeError:
        text = "\0"
    return text if len(text) < 4000 and "\0" not in text else f"sha256:{hashlib.sha256(raw).hexdigest()}"
