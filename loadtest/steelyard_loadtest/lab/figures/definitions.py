"""What each figure is: its unit and its definition, as the report shows them. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A column of results.csv, its name in the report's tables, its unit, and what it is."""

    column: str
    name: str
    unit: str
    meaning: str


_ROWS = (
    (
        "level", "level", "",
        "Users (locust, siege), connections (wrk), or with the open loop requests/s or the part of what the"
        " servers can do together.",
    ),
    ("seconds", "seconds", "s", "The counted time, without the warm-up."),
    (
        "requests", "total requests", "",
        "All that were sent (locust), were due (open loop) or ended (siege, wrk) in the counted time,"
        " failures among them.",
    ),
    ("failures", "failures", "", "Answers that are no success, and requests that got none."),
    ("failures_part", "failed", "%", "Failures over requests (in the CSV from 0 to 1)."),
    (
        "requests_per_s", "RPS", "1/s",
        "Requests, failures among them, over the counted time; as the locust study counts.",
    ),
    ("succeeded_per_s", "throughput", "1/s", "Requests that succeeded, over the counted time."),
    ("failures_per_s", "failures/s", "1/s", "Failures over the counted time."),
    ("p50_ms", "p50, median", "ms", "Half of the requests that succeeded took no longer (nearest rank)."),
    ("p75_ms", "p75", "ms", "So with 75 % of them."),
    ("p90_ms", "p90", "ms", "So with 90 % of them."),
    ("p99_ms", "p99", "ms", "So with 99 % of them; not given for fewer than 100 requests."),
    ("p999_ms", "p99.9", "ms", "So with 99.9 % of them; not given for fewer than 1000 requests."),
    ("mean_ms", "mean", "ms", "Mean latency of the requests that succeeded."),
    ("min_ms", "min", "ms", "The quickest of them."),
    ("max_ms", "max", "ms", "The slowest of them."),
    (
        "concurrency", "concurrency", "",
        "Requests in flight on average: what the generator says, or else, by Little's law, throughput × mean"
        " latency.",
    ),
    (
        "generator_cpu_utilization", "generator CPU", "",
        "The generator's user and system time over the counted time, of one core: near 1 it was the"
        " bottleneck.",
    ),
    (
        "balancer_cpu_us_per_request", "CPU/request", "µs",
        "User and system time of the balancer's processes over all requests.",
    ),
    ("balancer_cpu_cores", "balancer CPU", "cores", "The same time over the counted time."),
    (
        "max_over_mean_utilization", "max/mean", "",
        "The busiest server's mean CPU utilization over the mean of all: 1 when all are alike. Of a server"
        " that left, the time in which it took part.",
    ),
    (
        "jain_utilization", "Jain", "",
        "(Σx)² / (n Σx²) of the servers' mean CPU utilizations: 1 when all are alike, 1/n when one does"
        " everything (Jain, Chiu, Hawe 1984).",
    ),
    (
        "settle_s", "settles", "s",
        "From the beginning of the counted time: how long until every server's share (over the last 2 s, or"
        " over more until it rests on 100 requests) stays near its mean over the last third of the time"
        " before the first event. Near: within 20 % of it, or .02, or 4 √(p(1-p)(1/n+1/m)), whichever is"
        " most (n, m: the requests behind both). `never`, in the CSV `inf`: some share was away in that last"
        " third.",
    ),
    (
        "settle_after_event_s", "settles after event", "s",
        "The same from each event (the end of a burn is one) to the next; the slowest of them.",
    ),
    (
        "oscillation", "oscillation", "",
        "The part of the requests that changes servers from one second to the next: the mean of ½ Σ|Δ share|"
        " over the last third before each event and before the end, less what drawing so few requests gives,"
        " ½ Σ √(2/π) √(p(1-p)(1/n₁+1/n₂)); at least 0.",
    ),
    (
        "shares", "share", "%",
        "A server's part of all requests that the servers answered (in the CSV from 0 to 1).",
    ),
    (
        "utilizations", "utilization", "%",
        "A server's CPU time over its limit (over one core where it has none), in the CSV from 0 to 1; the"
        " mean over the time in which it took part.",
    ),
    ("failure_kinds", "failures by kind", "", "The status, or what went wrong where there was none."),
)  # fmt: skip

DEFINITIONS = tuple(
    Definition(column=column, name=name, unit=unit, meaning=meaning) for column, name, unit, meaning in _ROWS
)
