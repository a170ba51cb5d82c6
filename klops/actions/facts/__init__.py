"""What a host is: read with a POSIX shell, under the names of Ansible."""
