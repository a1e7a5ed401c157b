#!/usr/bin/env bash
# prometheus_client's parser of the text format renames samples: a counter `requests` is read as `requests_total`.
#
# Versions:  prometheus_client 0.26.0 (PyPI)
# Expected:  text_string_to_metric_families() gives each sample the name that it has on the page. The text format has no
#            rule about suffixes: Prometheus itself stores `requests`.
# Seen:      a counter's sample gets the suffix `_total`, its family loses it. A page that has the counters `requests`
#            and `requests_total`, which are two metrics, becomes two families `requests` with one sample
#            `requests_total` each, of the values 1 and 2. Gauges keep their names.
# Steelyard: indicators/text_formats.py takes only the lines of the wanted name to the parser, and compares no names
#            after it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --target "$folder/packages" prometheus_client==0.26.0
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
from importlib.metadata import version

from prometheus_client.parser import text_string_to_metric_families

PAGE = """# TYPE requests counter
requests 1
# TYPE requests_total counter
requests_total 2
# TYPE waiting gauge
waiting 3
"""
read = [
    (family.name, sample.name, sample.value)
    for family in text_string_to_metric_families(PAGE)
    for sample in family.samples
]
print(f"prometheus_client {version('prometheus_client')}: family, sample and value of requests, requests_total, waiting: {read}")
assert read == [("requests", "requests_total", 1), ("requests", "requests_total", 2), ("waiting", "waiting", 3)]
PYTHON
