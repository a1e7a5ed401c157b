#!/usr/bin/env bash
# locust's p99 is less than its minimum: percentiles are rounded to two digits, minimum and maximum are not.
#
# Versions:  locust 2.47.0 (PyPI)
# Expected:  min <= p50 <= p99 <= max. If each of 100 requests takes 1,249 ms, all percentiles are 1,249 ms.
# Seen:      percentiles are 1,200 ms (the 50th is held within minimum and maximum, the others are not). Times of 100 ms
#            and more are rounded to two digits when they are counted: 149 becomes 150, 1,249 becomes 1,200. So a change
#            of 4 % of a latency (1,200 to 1,249 ms) changes no percentile. Failed requests count in them: of ten
#            requests, nine that fail within 1 ms and one that takes 1 s have a median of 1 ms.
# Steelyard: the load lab's locust scenarios record each request's time, and do not read locust's percentiles.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile locust==2.47.0
"$folder/venv/bin/python" -I - <<'PYTHON'
import locust
from locust.stats import RequestStats

stats = RequestStats()
for _ in range(100):
    stats.log_request("GET", "/same", 1249, 0)
same = stats.get("/same", "GET")
for _ in range(9):
    stats.log_request("GET", "/failing", 1, 0)
    stats.log_error("GET", "/failing", OSError("refused"))
stats.log_request("GET", "/failing", 1000, 0)
failing = stats.get("/failing", "GET")
p99 = same.get_response_time_percentile(0.99)
print(
    f"locust {locust.__version__}, 100 requests of 1249 ms: min {same.min_response_time}, "
    f"p50 {same.median_response_time}, p90 {same.get_response_time_percentile(0.9)}, p99 {p99}, "
    f"max {same.max_response_time}; nine of ten fail in 1 ms, one takes 1000 ms: p50 {failing.median_response_time}"
)
assert p99 == 1200 < same.min_response_time == same.max_response_time == 1249
assert (failing.num_failures, failing.median_response_time) == (9, 1)
PYTHON
