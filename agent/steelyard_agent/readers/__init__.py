"""Readers: the only modules with psutil, /proc, /sys and control groups. `scope` chooses one."""
