#!/bin/sh
echo '{"web": {"hosts": ["w4", "w2"], "vars": {"g": "program"}}, "_meta": {"hostvars": {"w2": {"v": "program"}}}}'
