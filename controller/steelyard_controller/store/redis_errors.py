"""Redis's errors as every redis-py since 5.0.1 raises them.

redis-py 5 has no class for the redirects of a cluster outside of its cluster client, and 5.0.1 leaves the
reason of a failed connection out of the message.
"""

import re

from redis.exceptions import AskError, ClusterCrossSlotError, ClusterDownError

_CLASSES = ((AskError, "ASK"), (ClusterDownError, "CLUSTERDOWN"), (ClusterCrossSlotError, "CROSSSLOT"))

# In a pipeline, redis-py puts words of its own before Redis's.
_REDIRECT = re.compile(r"(?:\A|caused error: )(MOVED|ASK|CLUSTERDOWN|CROSSSLOT) ")

# Another node has the keys, or will have them.
ELSEWHERE = ("MOVED", "ASK", "CLUSTERDOWN")


def cluster_code(error: Exception) -> str | None:
    """Return the code of an error that only nodes of a cluster send (`MOVED` may be `ASK`); None: another."""
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    redirect = _REDIRECT.search(str(error))
    return redirect[1] if redirect else None


def text(error: Exception) -> str:
    """Return the error's text with the system's reason for a failed connection."""
    said = str(error) or type(error).__name__
    reason = getattr(error.__context__, "strerror", None)
    return said if not reason or reason in said else f"{said} {reason}"
