"""The locust study's tables, as printed: IC-PFG-21-49, tables 1 to 14. Pure.

Tables 15 and 16 repeat the lines at 250 users. Decimal commas are points here;
the deviations are left out.
"""

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One algorithm at one number of users: means of three runs of 60 s."""

    requests: int
    requests_per_s: float
    failures_per_s: float
    p50_ms: float
    mean_ms: float
    min_ms: float
    max_ms: float

    @property
    def failures_part(self) -> float:
        """Return the failed part of the requests, 0..1."""
        return self.failures_per_s / self.requests_per_s


USERS = (10, 100, 250, 500)


def _line(text: str) -> Line:
    requests, rate, failures, median, mean, least, most = map(float, text.split())
    return Line(
        requests=int(requests), requests_per_s=rate, failures_per_s=failures, p50_ms=median, mean_ms=mean,
        min_ms=least, max_ms=most,
    )  # fmt: skip


def _lines(*texts: str) -> MappingProxyType[int, Line]:
    return MappingProxyType(dict(zip(USERS, map(_line, texts), strict=True)))


# requests, requests/s, failures/s, median, mean, minimum and maximum latency in ms
TABLES = MappingProxyType({
    "RR": _lines(  # tables 1 and 2
        "2641 44.67 0 200 223.10 171.91 1370.47",
        "5021 84.80 0 710 1160.26 171.32 3399.41",
        "5173 87.36 0 720 2359.35 172.38 38023.90",
        "22532 379.99 234.62 370 1221.55 0.84 29553.42",
    ),
    "WRR-srv1": _lines(  # tables 3 and 4
        "2934 49.56 0 190 201.17 171.74 1024.95",
        "10183 172.07 0 220 574.07 171.38 2275.00",
        "10574 178.57 0 400 1298.29 173.29 35776.81",
        "25532 430.36 247.73 400 1107.53 0.92 58754.32",
    ),
    "WRR-srv2": _lines(  # tables 5 and 6
        "2547 43.04 0 210 231.60 172.49 1146.14",
        "3338 56.42 0 2200 1738.79 172.45 4046.64",
        "4905 82.80 0 1500 2716.89 172.64 31676.93",
        "22903 386.20 267.39 350 1187.67 0.87 39149.78",
    ),
    "IPH-srv1": _lines(  # tables 7 and 8
        "3046 51.46 0 190 193.62 171.21 594.31",
        "8743 147.70 0 670 672.17 340.67 1805.16",
        "8696 146.79 0 1100 1601.99 587.46 38074.98",
        "35594 599.84 475.89 320 739.02 0.84 58489.18",
    ),
    "IPH-srv2": _lines(  # tables 9 and 10
        "2257 38.13 0 240 261.46 191.95 1408.37",
        "2421 40.90 0 2400 2395.83 1961.18 4269.74",
        "2380 40.15 0.41 3400 4236.18 2974.58 58248.56",
        "19878 335.25 295.70 340 898.52 0.99 57888.57",
    ),
    "LC": _lines(  # tables 11 and 12
        "2899 48.96 0 190 203.62 171.61 823.12",
        "11196 189.23 0 390 524.80 306.03 1800.20",
        "11173 188.86 0 890 1302.19 451.50 5136.12",
        "25721 433.66 251.57 390 1055.92 1.08 33135.34",
    ),
    "WLC": _lines(  # tables 13 and 14
        "3038 51.35 0 190 194.17 172.70 777.97",
        "11260 190.32 0 510 522.32 364.73 1019.70",
        "11220 189.68 0 1100 1299.55 651.49 16415.41",
        "26048 439.86 252.11 380 1057.77 0.92 58024.61",
    ),
})  # fmt: skip
