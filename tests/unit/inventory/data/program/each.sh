#!/bin/sh
case "$1" in
--list) echo '{"g": ["a", "b"], "h": {"hosts": ["c"], "vars": {"x": 1}}}' ;;
--host) case "$2" in
    a) echo '{"name": "a", "x": 2}' ;;
    b) ;;
    *) echo "{\"name\": \"$2\"}" ;;
    esac ;;
esac
