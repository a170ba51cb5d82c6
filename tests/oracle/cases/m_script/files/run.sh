#!/bin/sh
echo "arguments: $#: $1"
[ "$1" = fail ] && exit 9
basename "$PWD"
