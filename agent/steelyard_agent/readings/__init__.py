"""Readers: the only modules that import psutil or open /proc and /sys. One scope a file."""
