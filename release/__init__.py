"""Builds a release: Python, Lua and Debian packages, and a bill of materials for each."""
