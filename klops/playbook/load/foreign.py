"""Ansible modules that klops lacks, each with what to use instead."""

from __future__ import annotations

_SYSTEMD = "systemd: {name: NAME, state: started}"
_APT = "a command such as 'apt-get install -y NAME', with creates or changed_when"
_DNF = "a command such as 'dnf install -y NAME', with creates or changed_when"
_USERS = "a command with a condition: register 'id NAME' first"
_DOCKER = "klops.container for klops' own container; any other: command with docker"
_FACTS = "facts are read when a task asks for one: ansible_facts, or setup"
_GIT = "a command with git, with creates; klops.source for the source that services run on"
_SQL = "the program of the database, by command"
_INVENTORY = "write the hosts and groups into the inventory"

#: names without a collection -> what to use instead
INSTEAD: dict[str, str] = {
    "service": _SYSTEMD,
    "sysvinit": _SYSTEMD,
    "runit": _SYSTEMD,
    "supervisorctl": "klops.services for klops' own services; any other: command with supervisorctl",
    "apt": _APT,
    "yum": "a command such as 'yum install -y NAME', with creates or changed_when",
    "dnf": _DNF,
    "dnf5": _DNF,
    "package": "a command: 'apt-get install -y NAME' or 'dnf install -y NAME', with creates or changed_when",
    "zypper": "a command such as 'zypper install -y NAME', with creates or changed_when",
    "apk": "a command such as 'apk add NAME', with creates or changed_when",
    "pacman": "a command such as 'pacman -S --noconfirm NAME', with creates or changed_when",
    "snap": "a command such as 'snap install NAME', with creates or changed_when",
    "homebrew": "a command such as 'brew install NAME', with creates or changed_when",
    "npm": "a command such as 'npm install NAME', with creates or changed_when",
    "gem": "a command such as 'gem install NAME', with creates or changed_when",
    "apt_key": "copy the key into /etc/apt/keyrings",
    "rpm_key": "a command with rpm --import",
    "apt_repository": "copy or template a file into /etc/apt/sources.list.d",
    "deb822_repository": "copy or template a file into /etc/apt/sources.list.d",
    "yum_repository": "copy or template a file into /etc/yum.repos.d",
    "debconf": "a command with debconf-set-selections, its text as stdin",
    "dpkg_selections": "a command with dpkg --set-selections, its text as stdin",
    "pip": "klops.stack for packages of the container; else a command such as 'pip install NAME==VERSION', "
    "with creates or changed_when",
    "git": _GIT,
    "subversion": "a command with svn, with creates",
    "hg": "a command with hg, with creates",
    "user": _USERS,
    "group": _USERS,
    "getent": "register a command: getent DATABASE KEY",
    "authorized_key": "lineinfile in ~/.ssh/authorized_keys",
    "known_hosts": "lineinfile in ~/.ssh/known_hosts; its own are kept by klops hosts trust HOST",
    "openssh_keypair": "a command with ssh-keygen, with creates",
    "docker_container": _DOCKER,
    "docker_compose": _DOCKER,
    "docker_compose_v2": _DOCKER,
    "docker_image": "a command with docker pull or docker load, with changed_when",
    "docker_network": "a command with docker network, with changed_when",
    "docker_volume": "a command with docker volume, with changed_when",
    "docker_login": "a command with docker login, the password as stdin, and no_log: true",
    "podman_container": _DOCKER,
    "k8s": "a command with kubectl",
    "helm": "a command with helm",
    "synchronize": "klops.source for a source tree; copy for single files; many files: a command with rsync "
    "and delegate_to: localhost",
    "patch": "klops.patch for a file of the container's site-packages; else a command with patch",
    "get_url": "a command such as 'curl -fLo DEST URL', with creates",
    "replace": "lineinfile, blockinfile, or the whole file by template",
    "assemble": "template, with one include for each part",
    "ini_file": "lineinfile, or the whole file by template",
    "xml": "the whole file by template",
    "tempfile": "register a command: mktemp",
    "find": "register a command with find, and loop over its stdout_lines",
    "archive": "a command with tar, with creates",
    "mount": "lineinfile in /etc/fstab, and a command with mount",
    "filesystem": "a command with mkfs, with creates",
    "lvol": "a command with lvcreate, with creates",
    "parted": "a command with parted, with creates",
    "sysctl": "copy a file into /etc/sysctl.d, and notify a handler with sysctl --system",
    "modprobe": "copy a file into /etc/modules-load.d, and a command with modprobe",
    "pam_limits": "copy a file into /etc/security/limits.d",
    "alternatives": "a command with update-alternatives",
    "timezone": "a command with timedatectl set-timezone",
    "hostname": "a command with hostnamectl set-hostname",
    "locale_gen": "a command with locale-gen",
    "seboolean": "a command with setsebool",
    "selinux": "lineinfile in /etc/selinux/config",
    "iptables": "a command with iptables, after a check with iptables -C",
    "firewalld": "a command with firewall-cmd",
    "ufw": "a command with ufw",
    "at": "cron, or a command with at",
    "ping": "command: true; or klops status HOST",
    "wait_for_connection": "wait_for the port of sshd with delegate_to: localhost",
    "raw": "shell: no module needs Python on the host",
    "expect": "a command with stdin",
    "make": "a command with make, with chdir",
    "async_status": "leave async out: a task may take as long as it takes",
    "include_vars": "vars_files on the play, or vars on the block or the task",
    "set_stats": "set_fact, and klops play -o json for what is to be read by programs",
    "add_host": _INVENTORY,
    "group_by": f"{_INVENTORY}; or when",
    "service_facts": "register a command: systemctl is-active NAME",
    "package_facts": "register a command: dpkg -s NAME, or rpm -q NAME",
    "mount_facts": _FACTS,
    "validate_argument_spec": "assert",
    "mysql_db": _SQL,
    "mysql_query": _SQL,
    "postgresql_db": _SQL,
    "postgresql_query": _SQL,
    "mail": "a command with sendmail and delegate_to: localhost",
    "slack": "uri with delegate_to: localhost",
    "win_command": "Linux hosts only: command, shell, copy",
    "win_shell": "Linux hosts only: command, shell, copy",
    "win_copy": "Linux hosts only: command, shell, copy",
}


def instead_of(module: str) -> str:
    """What to use instead of a module that klops lacks, whatever its collection; "" if unknown."""
    return INSTEAD.get(module.rpartition(".")[2], "")
