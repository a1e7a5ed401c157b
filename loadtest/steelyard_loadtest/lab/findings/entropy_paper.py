"""What the entropy paper found: Qin, Wang, Yuan, Zhong, Research on Nginx Dynamic Load Balancing. Pure.

Its figures 2 to 4 are line charts without printed values: what its text says of
them is all that can be checked.
"""

import math

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.findings.curves import (
    AlikeAlong,
    BestAlong,
    Curves,
    GrowsFastest,
    PeakBetween,
    Rises,
)
from steelyard_loadtest.lab.findings.finding import Finding, Source
from steelyard_loadtest.lab.findings.grades import ALIKE

NAMES = {"wrr": "nginx-wrr", "fair": "nginx-fair", "dynlb": "steelyard-paper-vnswrr"}
STEELYARD = {"Steelyard": DEFAULT}
PEERS = {"wrr": "nginx-wrr", "fair": "nginx-fair"}

STEP = 200
"""Users from one of its levels to the next: `near` is a step to either side, `above` begins a step later."""


def _curves(
    metric: str, names: dict[str, str] | None = None, low: float = 0.0, high: float = math.inf
) -> Curves:
    return Curves(scenario="paper", metric=metric, names=names or NAMES, low=low, high=high)


FINDINGS = (
    Finding(
        statement="Below 800 users the actual concurrency of the three is not much different.",
        where="§IV.A, figure 2",
        checks=(AlikeAlong(curves=_curves("concurrency", high=800 - STEP), theirs="not much different"),),
    ),
    Finding(
        statement="The actual concurrency is highest near 1200 users, and then stays or falls slightly.",
        where="§IV.A, figure 2",
        why="our servers queue whatever comes and refuse nothing, so that concurrency goes on rising with "
        "the users; in the paper it stops near 1200, where its client of one core, or its servers, "
        "were at a limit",
        checks=(
            PeakBetween(
                curves=_curves("concurrency"), low=1200 - STEP, high=1200 + STEP, theirs="1200"
            ),
        ),
    ),
    Finding(
        statement="After that the actual concurrency of dynlb is slightly higher than that of the others.",
        where="§IV.A, figure 2",
        why="which of the three keeps most requests waiting changes from level to level here; dynlb as "
        "printed adjusts by equation 8 only the servers that it takes for high or low, which shrinks "
        "them against the others, and its loop swings above half load (docs/control-law.md; "
        "docs/scaling.md has the map): at loads like these it is no better than fixed weights",
        checks=(
            BestAlong(
                curves=_curves("concurrency", low=1200 + STEP), candidate="dynlb", best="highest",
                theirs="slightly higher",
            ),
        ),
        note="siege's concurrency is the mean number of requests in flight, that is throughput × response "
        "time (Little's law): more of it is no merit by itself.",
    ),
    Finding(
        statement="The response time of all three rises with the number of users.",
        where="§IV.B, figure 3",
        checks=(Rises(curves=_curves("mean_ms"), theirs="gradually increases"),),
    ),
    Finding(
        statement="Below 800 users the response times of the three are not obviously different.",
        where="§IV.B, figure 3",
        why="dynlb as printed adjusts by equation 8 only the servers that it takes for high or low, which "
        "shrinks them against the others, and its loop swings above half load (docs/control-law.md; "
        "docs/scaling.md has the map): at loads like these it is no better than fixed weights",
        checks=(AlikeAlong(curves=_curves("mean_ms", high=800 - STEP), theirs="not obvious"),),
        beside=(
            BestAlong(
                curves=_curves("mean_ms", STEELYARD | PEERS, high=800 - STEP), candidate="Steelyard",
                best="lowest", theirs="–",
            ),
        ),
    ),
    Finding(
        statement="Above 1000 users wrr's response time grows faster than that of the other two.",
        where="§IV.B, figure 3",
        checks=(
            GrowsFastest(curves=_curves("mean_ms", low=1000), candidate="wrr", theirs="wrr the fastest"),
        ),
    ),
    Finding(
        statement="The response times of fair and dynlb are not much different.",
        where="§IV.B, figure 3",
        why="dynlb as printed adjusts by equation 8 only the servers that it takes for high or low, which "
        "shrinks them against the others, and its loop swings above half load (docs/control-law.md; "
        "docs/scaling.md has the map): at loads like these it is no better than fixed weights",
        checks=(
            AlikeAlong(
                curves=_curves("mean_ms", {"fair": NAMES["fair"], "dynlb": NAMES["dynlb"]}, low=1000),
                theirs="not much different",
            ),
        ),
    ),
    Finding(
        statement="dynlb's response time is generally the lowest.",
        where="§IV.B, figure 3",
        why="dynlb as printed adjusts by equation 8 only the servers that it takes for high or low, which "
        "shrinks them against the others, and its loop swings above half load (docs/control-law.md; "
        "docs/scaling.md has the map): at loads like these it is no better than fixed weights",
        checks=(
            BestAlong(
                curves=_curves("mean_ms", low=1000), candidate="dynlb", best="lowest",
                theirs="generally lower",
            ),
        ),
        beside=(
            BestAlong(
                curves=_curves("mean_ms", STEELYARD | PEERS, low=1000), candidate="Steelyard", best="lowest",
                theirs="–",
            ),
        ),
    ),
    Finding(
        statement="Throughput rises until 1000 users and falls beyond.",
        where="§IV.C, figure 4",
        why="our servers compute one request after the other, however many wait, and refuse none: their "
        "throughput neither rises nor falls with the queue, and what differs between levels is noise",
        checks=(
            PeakBetween(
                curves=_curves("requests_per_s"), low=1000 - STEP, high=1000 + STEP, theirs="1000"
            ),
        ),
    ),
    Finding(
        statement="Above 600 users dynlb's throughput is significantly higher than that of the other two.",
        where="§IV.C, figure 4",
        why="dynlb as printed adjusts by equation 8 only the servers that it takes for high or low, which "
        "shrinks them against the others, and its loop swings above half load (docs/control-law.md; "
        "docs/scaling.md has the map): at loads like these it is no better than fixed weights",
        checks=(
            BestAlong(
                curves=_curves("requests_per_s", low=600 + STEP), candidate="dynlb", best="highest",
                theirs="significantly higher", margin=ALIKE,
            ),
        ),
        beside=(
            BestAlong(
                curves=_curves("requests_per_s", STEELYARD | PEERS, low=600 + STEP), candidate="Steelyard",
                best="highest", theirs="–",
            ),
        ),
    ),
)  # fmt: skip

SOURCE = Source(
    title="The entropy paper",
    what="Qin, Wang, Yuan, Zhong: *Research on Nginx Dynamic Load Balancing Algorithm*: nginx's weighted "
    "round robin, the third-party fair, and weights from entropy-weighted utilizations (dynlb), in front of "
    "three servers of 2, 2 and 4 cores; siege from 200 to 2000 users. Its figures 2 to 4 are line charts "
    "without printed values, so that only the words about them can be checked.",
    mirrored="scenario `paper`",
    names={**NAMES, "Steelyard": DEFAULT},
    findings=FINDINGS,
)
