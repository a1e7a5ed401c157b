"""Measures the English of docs, comments and messages, and refuses sentences that a reader stumbles over.

`python -m testing.english` prints the figures by folder; `--lint` is a part of `make lint`.
"""
