"""Scopes: a machine, a control group or a process tree. One a file, all of them pure."""
