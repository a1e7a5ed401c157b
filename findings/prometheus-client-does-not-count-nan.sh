#!/usr/bin/env bash
# prometheus_client's Histogram adds a NaN to its sum for ever, and does not count the observation.
#
# Versions:  prometheus_client 0.26.0 (PyPI)
# Expected:  an observation raises the count by one, as in Summary of the same library. client_golang 1.23.2 counts a NaN
#            in the bucket +Inf.
# Seen:      no bucket is >= NaN, and the count is the sum of the buckets. So h_count is 2 after three observations,
#            and Summary counts 3. h_sum is NaN from then on, and so is each mean and rate over it.
# Steelyard: the agent's indicators refuse a sample that is NaN (indicators/text_formats.py), and go on without it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --target "$folder/packages" prometheus_client==0.26.0
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
import math
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, Summary

registry = CollectorRegistry()
histogram = Histogram("h", "A histogram.", buckets=(1,), registry=registry)
summary = Summary("s", "A summary.", registry=registry)
for value in (0.5, math.nan, 0.7):
    histogram.observe(value)
    summary.observe(value)
samples = {}
for family in registry.collect():
    for sample in family.samples:
        samples[sample.name + str(sample.labels.get("le", ""))] = sample.value
print(f"prometheus_client {version('prometheus_client')}, after 0.5, NaN and 0.7:")
print({name: samples[name] for name in ("h_bucket1.0", "h_bucket+Inf", "h_count", "h_sum", "s_count")})
assert (samples["h_bucket+Inf"], samples["h_count"], samples["s_count"]) == (2, 2, 3)
assert math.isnan(samples["h_sum"])
PYTHON
