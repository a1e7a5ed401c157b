"""Validation of objects by Kubernetes' schemas from the package kubernetes-validate.

The package's own `validate` reads the schemas again for each object, in a tenth of a second.
"""

import re
from functools import cache
from typing import Any

import jsonschema
from kubernetes_validate import latest_version, utils
from referencing import Registry, Resource

# Kinds of Prometheus's operator, KEDA and Envoy Gateway. Kubernetes has no schemas for them.
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject", "BackendTrafficPolicy"}

# The oldest version that Chart.yaml admits, and the newest with schemas here.
OLDEST, NEWEST = "1.25", latest_version()


@cache
def _contents(version: str, name: str) -> Any:
    return utils.schema_contents(f"kubernetes-json-schema/v{version}-local-strict/{name}.json", version)


@cache
def _validator(version: str, name: str) -> jsonschema.Draft202012Validator:
    registry = Resource.from_contents(_contents(version, "_definitions")) @ Registry()
    return jsonschema.Draft202012Validator(_contents(version, name), registry=registry)


def validate(document: dict[str, Any], version: str) -> None:
    """Raise `jsonschema.ValidationError` if a cluster of this version would refuse the object."""
    if document["kind"] in FOREIGN:
        return
    known = [each for each in utils.all_versions() if utils.major_minor(each) == utils.major_minor(version)][
        -1
    ]
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", document["apiVersion"])
    _validator(known, f"{document['kind'].lower()}-{group}").validate(document)
