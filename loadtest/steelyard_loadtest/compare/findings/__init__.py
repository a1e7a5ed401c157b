"""The findings of the five sources, and whether they reproduced here. Pure."""
