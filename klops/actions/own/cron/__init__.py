"""``klops.cron``: what keeps a host in order without klops, by cron or by a systemd timer."""
