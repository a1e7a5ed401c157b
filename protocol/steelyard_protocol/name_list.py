"""Names in a line for a person: not thousands. Pure."""

from collections.abc import Collection


def shown(names: Collection[str], most: int) -> str:
    """Return the first `most` names, with commas between, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join([*names][:most]) + more
