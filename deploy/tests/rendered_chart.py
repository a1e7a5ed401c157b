"""The Helm chart as helm renders it: the objects for a cluster, and queries on them."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/steelyard"
SETS = {path.stem: path for path in sorted((CHART / "ci").glob("*.yaml"))}

Document = dict[str, Any]

# Without libyaml, PyYAML has the second one alone.
Loader: type[yaml.CSafeLoader | yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text: by libyaml, which takes a tenth of the time."""
    return yaml.load(text, Loader)  # noqa: S506 - a safe one


class RefusedError(Exception):
    """Helm refused the values; the message is its own."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a release in the namespace `lb`."""

    documents: tuple[Document, ...]

    def of(self, *kinds: str) -> list[Document]:
        """Return the objects of these kinds."""
        return [each for each in self.documents if each["kind"] in kinds]

    def named(self, kind: str, name: str) -> Document:
        """Return an object, which must be there."""
        (document,) = [each for each in self.of(kind) if each["metadata"]["name"] == name]
        return document

    @property
    def workloads(self) -> dict[str, Document]:
        """Return the workloads by component."""
        return {
            each["metadata"]["labels"]["app.kubernetes.io/component"]: each
            for each in self.of("Deployment", "StatefulSet", "DaemonSet")
        }

    @property
    def pods(self) -> dict[str, Document]:
        """Return the pods' templates by component."""
        return {component: each["spec"]["template"] for component, each in self.workloads.items()}

    @property
    def containers(self) -> Iterator[tuple[str, Document]]:
        """Return (component, container)."""
        for component, pod in self.pods.items():
            assert "initContainers" not in pod["spec"]
            for container in pod["spec"]["containers"]:
                yield component, container


def program(name: str) -> Path:
    """Return the path of helm or kubectl."""
    path = ROOT / ".run/kubernetes-clients" / name
    if not path.exists():
        pytest.fail(f"{name} is not here: run scripts/kubernetes-clients, or `make setup-tests`")
    return path


def helm(*arguments: str, given: str | None = None) -> str:
    """Run helm and return its output; raise `RefusedError` with its message."""
    done = subprocess.run(
        [program("helm"), *arguments], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if not line.startswith("level=INFO")]
        raise RefusedError("\n".join(said))
    return done.stdout


def render(values: Mapping[str, Any], release: str = "steelyard") -> Rendered:
    """Render the chart with these values."""
    text = helm(
        "template", release, str(CHART), "--namespace", "lb", "--values", "-", given=json.dumps(values)
    )
    return Rendered(tuple(each for each in yaml.load_all(text, Loader) if each))


@cache
def of_set(name: str) -> Rendered:
    """Render one of the sets of values in ci/."""
    return render(read_yaml(SETS[name].read_text(encoding="utf-8")))


def environment(container: Document) -> dict[str, str]:
    """Return the variables of a container; a value from the cluster is `<field>`."""
    variables = {}
    for each in container.get("env", []):
        source = each.get("valueFrom", {})
        field = source.get("fieldRef", {}).get("fieldPath") or source.get("resourceFieldRef", {}).get(
            "resource"
        )
        variables[each["name"]] = each["value"] if field is None else f"<{field}>"
    return variables


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector chooses an object with these labels. An empty one chooses all."""
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    operators = {
        "Exists": lambda each: each["key"] in labels,
        "In": lambda each: labels.get(each["key"]) in each["values"],
    }
    return wanted and all(operators[each["operator"]](each) for each in selector.get("matchExpressions", []))
