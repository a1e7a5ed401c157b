"""docs/guides/kubernetes.md: run its helm commands, check its objects and its table."""

import re
import shlex
from typing import Any

import pytest
import yaml
from steelyard_agent import flags
from steelyard_controller.declarations.upstream import Upstream
from steelyard_loadtest.machine import picker_list

from deploy.tests import chart_invariants, kubernetes_schemas
from deploy.tests.rendered_chart import ROOT, Document, Loader, environment, helm, of_set, render

TEXT = (ROOT / "docs/guides/kubernetes.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
YAML = [document for block in BLOCKS for document in yaml.load_all(block, Loader)]
COMMANDS = [line for block in SHELL for line in block.replace("\\\n", " ").splitlines()]
VALUES = [each for each in YAML if "kind" not in each]
TABLE = TEXT[TEXT.index("| ingress-nginx | here |") :]


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("helm ")])
def test_a_command_of_helm_is_one_that_the_chart_takes(command: str) -> None:
    words = [word for word in shlex.split(command)[1:] if word != "--reuse-values"]
    verb, release, chart, *rest = words
    assert verb in {"install", "upgrade"}
    # Without a cluster: the objects that helm would apply.
    assert "kind: StatefulSet" in helm("template", release, str(ROOT / chart), *rest)


def test_objects_that_kubectl_names_are_in_the_chart() -> None:
    rendered = of_set("default")
    names = {(each["kind"].lower(), each["metadata"]["name"]) for each in rendered.documents}
    asked = set(re.findall(r"\b(service|statefulset)/(steelyard-[a-z-]+)", TEXT))
    assert asked
    assert asked <= names
    assert ("secret", "steelyard") in names
    pods = {f"{each['metadata']['name']}-0" for each in rendered.of("StatefulSet")}
    assert set(re.findall(r"\bexec ([a-z0-9-]+)", TEXT)) <= pods


@pytest.mark.parametrize("values", VALUES)
def test_values_are_taken_and_make_a_sound_release(values: dict[str, Any]) -> None:
    rendered = render(values)
    chart_invariants.check(rendered)
    for upstream in values.get("upstreams", {}).values():
        Upstream.model_validate(upstream).made_laws()


def sidecar() -> Document:
    deployments: list[Document] = [each for each in YAML if each.get("kind") == "Deployment"]
    return deployments[0]


def test_objects_are_such_as_kubernetes_knows() -> None:
    for document in YAML:
        if "kind" in document:
            kubernetes_schemas.validate(document, kubernetes_schemas.NEWEST)


def test_the_sidecar_is_hardened_as_our_pods_are() -> None:
    for container in sidecar()["spec"]["template"]["spec"]["containers"]:
        chart_invariants.container_is_hardened(container)


def test_the_sidecar_has_what_the_agent_reads_and_the_chart_offers() -> None:
    template = sidecar()["spec"]["template"]
    agent = template["spec"]["containers"][1]
    chart_invariants.environment_is_read("agent", agent, but={"APP_CPU"})
    assert {f"--{setting.name}" for setting in flags.SETTINGS} >= {
        word for word in agent["args"] if word.startswith("--")
    }
    env = environment(agent)
    rendered = of_set("default")
    (service,) = [each for each in rendered.of("Service") if "memcached" in each["metadata"]["name"]]
    assert env["STEELYARD_MEMCACHED"] == f"{service['metadata']['name']}.steelyard.svc.cluster.local:11211"
    # The NetworkPolicy selects it by this label.
    assert template["metadata"]["labels"]["steelyard/upstream"] == env["STEELYARD_AGENT_UPSTREAM"]


def test_what_the_table_offers_for_an_annotation_is_there() -> None:
    sticky = (ROOT / "openresty/steelyard/lib/steelyard/core/sticky.lua").read_text(encoding="utf-8")
    named = set(re.findall(r"picker: (\w+)", TABLE)) | set(re.findall(r'picker = "(\w+)"', TABLE))
    assert named == {"vnswrr", "peak_ewma", "chash"}
    assert named <= {picker.name for picker in picker_list.listed()}
    keys = re.findall(r"`(?:hash_key: )?(address|uri|header:[\w-]+|cookie:\w+|argument:\w+)`", TABLE)
    keys += re.findall(r"hash_key: (uri|address)", TABLE)
    assert {key.partition(":")[0] for key in keys} >= {"uri", "address", "header", "cookie", "argument"}
    for key in keys:
        Upstream.model_validate({"picker": "chash", "hash_key": key})
    for option in ("cookie", "path", "domain", "same_site", "secure", "max_age_s"):
        assert f"`{option}`" in TABLE
        assert re.search(rf"\b{option}\b", sticky)
