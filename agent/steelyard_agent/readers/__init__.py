"""Readers: the only modules that open /proc, /sys and control groups. One scope a file; `scope` chooses."""
