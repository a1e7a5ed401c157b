"""The Helm chart on a real API server: it accepts each set of values, and is left clean."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from .kube_api import KubeApi, wait_until

pytestmark = pytest.mark.kubernetes

CHART = "deploy/helm/steelyard"
SETS = sorted(Path(CHART, "ci").glob("*.yaml"))
# Kinds of Prometheus's operator, here without rules for their fields.
OPERATOR_KINDS = ("ServiceMonitor", "PodMonitor", "PrometheusRule")

# (API group, resource): verbs
Rights = dict[tuple[str, str], set[str]]
DISCOVERY: Rights = {
    ("", "services"): {"get", "list", "watch"},
    ("discovery.k8s.io", "endpointslices"): {"get", "list", "watch"},
}
AGENT: Rights = {("", "pods"): {"list"}}


@dataclass(frozen=True, slots=True)
class Release:
    """The chart with one set of values, for a namespace of its own."""

    api: KubeApi
    namespace: str
    values: Path

    def helm(self, verb: str) -> str:
        """Run `helm VERB steelyard deploy/helm/steelyard` with the values."""
        into = ("--namespace", self.namespace, "--values", str(self.values))
        return self.api.helm(verb, "steelyard", CHART, *into)

    def secret(self) -> dict[str, str]:
        """Return the secrets made at install; none if they existed already."""
        where = ("--namespace", self.namespace, "--ignore-not-found", "--output=json")
        secret = self.api.kubectl("get", "secret", "steelyard", *where)
        return dict(json.loads(secret)["data"]) if secret else {}

    def objects(self) -> list[str]:
        """Return everything in the namespace, and the release's objects elsewhere."""
        kinds = self.api.kubectl("api-resources", "--verbs=list", "--output=name").split()
        in_namespaces = self.api.kubectl(
            "api-resources", "--verbs=list", "--namespaced", "--output=name"
        ).split()
        marked = ("--all-namespaces", "--selector=app.kubernetes.io/instance=steelyard")
        return [
            *self.api.kubectl(
                "get", ",".join(in_namespaces), "--namespace", self.namespace, "--output=name"
            ).split(),
            *self.api.kubectl("get", ",".join(kinds), *marked, "--output=name").split(),
        ]

    def rights(self, account: str, namespace: str) -> Rights:
        """Return a ServiceAccount's rights in a namespace."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        # kubectl's own validation reads definitions of kinds, and such an account may not.
        account_itself = (f"--as=system:serviceaccount:{self.namespace}:{account}", "--validate=ignore")
        said = self.api.kubectl(
            "create", *account_itself, "--filename=-", "--output=json", given=json.dumps(review)
        )
        return {
            (group, resource): set(rule["verbs"])
            for rule in json.loads(said)["status"]["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }


@pytest.fixture(scope="module")
def cluster(kube_api: KubeApi) -> KubeApi:
    """The API with the needs of the sets of values: two namespaces, and the operator's kinds."""
    for namespace in ("shop", "payments"):
        kube_api.kubectl("create", "namespace", namespace)
    definitions = [definition(kind) for kind in OPERATOR_KINDS]
    kube_api.kubectl("create", "--filename=-", given=yaml.safe_dump_all(definitions))
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    kube_api.kubectl("wait", "--for=condition=Established", *names)
    return kube_api


def definition(kind: str) -> dict[str, Any]:
    """Return a definition of one of the operator's kinds, with any fields."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def test_there_are_sets_of_values() -> None:
    assert len(SETS) >= 6


@pytest.mark.parametrize("values", SETS, ids=lambda path: path.stem)
def test_the_chart_is_taken_grants_what_it_must_and_leaves_nothing(cluster: KubeApi, values: Path) -> None:
    release = Release(cluster, cluster.new_namespace(), values)
    said = yaml.safe_load(values.read_text())
    agents = said.get("agent", {}).get("daemonset", {}).get("enabled", False)

    # An unknown field is an error. So is a warning, for example about a pod with too many rights.
    # A node's agent sees all processes and cgroups; only "privileged" allows that.
    level = "privileged" if agents else "restricted"
    cluster.kubectl("label", "namespace", release.namespace, f"pod-security.kubernetes.io/warn={level}")
    strictly = ("--dry-run=server", "--validate=strict", "--warnings-as-errors", "--filename=-")
    cluster.kubectl("create", *strictly, given=release.helm("template"))

    release.helm("install")
    secret = release.secret()
    assert bool(secret) != ("existing" in said.get("secrets", {}))
    assert release.objects()

    discovery = {"enabled": True, "namespaces": [], **said.get("discovery", {})}
    everywhere = discovery["enabled"] and not discovery["namespaces"]
    granted = {
        ("steelyard-controller", release.namespace): DISCOVERY if everywhere else {},
        **{("steelyard-controller", namespace): DISCOVERY for namespace in discovery["namespaces"]},
        ("steelyard-agent", release.namespace): AGENT if agents else {},
        ("default", release.namespace): {},
    }
    wait_until(
        lambda: all(
            release.rights(*who) == release.rights("nobody", who[1]) | rights
            for who, rights in granted.items()
        ),
        f"the rights, beside those of every ServiceAccount, are {granted}",
    )

    release.helm("upgrade")
    assert release.secret() == secret

    cluster.helm("uninstall", "steelyard", "--namespace", release.namespace)
    wait_until(lambda: not release.objects(), "nothing is left")
