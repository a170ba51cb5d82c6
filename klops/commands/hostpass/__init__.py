"""The pass: the shell script that a host runs by itself, in parts."""
