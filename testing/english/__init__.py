"""Measures the English of docs, comments and messages, and complains about hard sentences.

`python -m testing.english` prints the figures by folder; `--lint` is a part of `make lint`.
"""
