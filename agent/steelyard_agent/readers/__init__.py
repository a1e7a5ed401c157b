"""Readers: the only modules that ask psutil, or open /proc, /sys and control groups. `scope` chooses one."""
