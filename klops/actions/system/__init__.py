"""Services of the host: cron, systemd."""
