"""Which changes of a weight are small, so that HAProxy and Envoy hear of them later than of others. Pure."""

# A change below this share of the weight is small; a law's steps at rest are mostly smaller.
SMALL_SHARE = 0.05


def is_small_in_haproxy(before: int, now: int) -> bool:
    """Return whether a change of a weight in HAProxy's range is small; a step of 1 is rounding.

    HAProxy queues a server anew with each new weight.
    """
    return abs(now - before) <= max(1.0, SMALL_SHARE * before)
