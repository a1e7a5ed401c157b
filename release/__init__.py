"""Builds what is released: Python, Lua and Debian packages, and a bill of materials of each."""
