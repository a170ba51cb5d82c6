"""Filters and tests that Ansible users know and that aren't there, with what does the same."""

from __future__ import annotations

_PASSWORDS = "make the hash once, and keep it as a secret setting such as {env: NAME}"
_VAULT = "write lookup('env', 'NAME') or give -e @FILE; under klops: a secret setting such as {env: NAME}"
_WINDOWS = "hosts have a POSIX shell: use the one without win_"

REFUSED_FILTERS = {
    "password_hash": _PASSWORDS,
    "vault": _VAULT,
    "unvault": _VAULT,
    "json_query": "use selectattr, map(attribute='a.b') and first",
    "ipaddr": "it needs netaddr; take an address apart with split or regex_search",
    "fileglob": "filters read no files: use query('fileglob', 'pattern')",
    "realpath": "filters look at no files: use normpath, or the module stat on the host",
    "expanduser": "filters don't read the environment: use lookup('env', 'HOME')",
    "expandvars": "filters don't read the environment: use lookup('env', 'NAME')",
    "win_basename": _WINDOWS,
    "win_dirname": _WINDOWS,
    "win_splitdrive": _WINDOWS,
}
REFUSED_TESTS = {
    "vault_encrypted": _VAULT,
    "vaulted_file": _VAULT,
    "is_mount": "it looks at this machine; ask the host with the facts' ansible_mounts",
    "mount": "it looks at this machine; ask the host with the facts' ansible_mounts",
}
