#!/bin/sh
[ "$1" = --list ] || exit 3
echo "a note on standard error" >&2
cat <<'JSON'
{"web": {"hosts": ["w1", "w2", "w1"], "vars": {"v": "web", "n": 1.50, "deep": {"a": [1, {"b": null}]}}, "children": ["inner"]},
 "inner": {"hosts": ["w3"], "vars": {"ansible_group_priority": 7}},
 "list": ["w1", "l1"],
 "empty": {"hosts": []},
 "alone": {"v": "this is the oldest form", "yes": true},
 "_meta": {"hostvars": {"w1": {"v": "own", "text": "0644", "mark": {"__ansible_unsafe": "{{ no template }}"}},
                        "stranger": {"v": 1}, "l1": {}}},
 "all": {"vars": {"v": "all", "from": "program"}, "children": ["list"]}}
JSON
