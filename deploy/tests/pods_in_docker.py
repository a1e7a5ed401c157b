"""A rendering's pods as containers of a Docker engine, with the kubelet's part done here.

It sets user and groups, the read-only root, capabilities, limits, environment with `$(NAME)` and fields, and
arguments. It mounts configuration and secrets as files of the pod's group, and empty folders. It runs probes,
preStop and the image's stop signal. Services and pods are names on one network. A Service's own address and
NetworkPolicies are left out.
"""

import base64
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.tests.rendered_chart import Document, Rendered

PREFIX = "steelyard-chart-test"

# Units of memory and CPU in Kubernetes.
UNITS = {"Mi": 2**20, "Gi": 2**30, "m": 0.001, "": 1.0}


def docker(*arguments: str, timeout_s: float = 120) -> str:
    """Run docker; raise with its output if it fails."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode != 0:
        raise AssertionError(f"docker {' '.join(arguments[:3])}: {done.stderr[-2000:]}")
    return done.stdout.strip()


def remove_all() -> None:
    """Remove all containers and networks with the prefix, also those of an earlier, killed run."""
    left = docker("ps", "--all", "--quiet", "--filter", f"name=^{PREFIX}").split()
    if left:
        docker("rm", "--force", "--volumes", *left)
    for network in docker("network", "ls", "--quiet", "--filter", f"name=^{PREFIX}$").split():
        docker("network", "rm", network)


class Pods:
    """The pods of a release, in one network."""

    def __init__(self, rendered: Rendered, folder: Path) -> None:
        self._rendered = rendered
        self._folder = folder
        remove_all()
        docker("network", "create", PREFIX)

    def start(self, component: str, *, ordinal: int = 0, publish: str | None = None) -> str:
        """Start a workload's pod of this number; return its name."""
        workload = self._rendered.workloads[component]
        name = f"{workload['metadata']['name']}-{ordinal}"
        service = workload["spec"].get("serviceName")
        names = [self._host(each["metadata"]["name"]) for each in self._services(component)]
        if service is not None:
            names.append(f"{name}.{self._host(service)}")
        template = workload["spec"]["template"]
        claims = [each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])]
        self.start_pod(name, template["spec"], names=names, claims=claims, publish=publish)
        return name

    def start_pod(
        self, name: str, spec: Document, *, names: list[str], claims: list[str], publish: str | None = None
    ) -> None:
        """Start a pod; its containers share the network of the first one."""
        volumes = {each["name"]: self._volume(name, each, spec) for each in spec.get("volumes", [])}
        volumes |= {claim: self._folder_of(name, claim, spec) for claim in claims}
        for number, container in enumerate(spec["containers"]):
            command = ["run", "--detach", "--name", _container(name, container), *_security(spec, container)]
            if number == 0:
                command += ["--hostname", name, "--network", PREFIX]
                command += [word for alias in names for word in ("--network-alias", alias)]
                command += ["--publish", publish] if publish else []
            else:
                first = f"container:{_container(name, spec['containers'][0])}"
                command += [
                    "--network",
                    first,
                    *(["--pid", first] if spec.get("shareProcessNamespace") else []),
                ]
            variables = _environment(name, spec, container)
            command += [word for each in variables.items() for word in ("--env", "=".join(each))]
            for mount in container.get("volumeMounts", []):
                mode = ":ro" if mount.get("readOnly") else ""
                command += ["--volume", f"{volumes[mount['name']]}:{mount['mountPath']}{mode}"]
            words = [*container.get("command", []), *container.get("args", [])]
            words = [_expanded(word, variables) for word in words]
            if "command" in container:
                command += ["--entrypoint", words.pop(0)]
            docker(*command, container["image"], *words)

    def is_well(self, name: str, component: str) -> bool:
        """Run all the probes of a pod once, as the kubelet does."""
        (container,) = self._rendered.pods[component]["spec"]["containers"]
        probes = [
            container[each]
            for each in ("startupProbe", "livenessProbe", "readinessProbe")
            if each in container
        ]
        return all(self._probe(name, container, probe) for probe in probes)

    def address(self, name: str, component: str) -> str:
        """Return a pod's IP."""
        (container,) = self._rendered.pods[component]["spec"]["containers"]
        (network,) = self.inspect(name, container)["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def run(self, name: str, component: str, *command: str) -> str:
        """Run a command in a pod, as `kubectl exec` does; return its output."""
        (container,) = self._rendered.pods[component]["spec"]["containers"]
        return docker("exec", _container(name, container), *command)

    def inspect(self, name: str, container: Document) -> Any:
        """Return the engine's description of a container."""
        return json.loads(docker("inspect", _container(name, container)))[0]

    def end(self, name: str, component: str) -> int:
        """End a pod as the kubelet does: preStop, the image's signal, and SIGKILL after the grace period.

        Returns the status of its container.
        """
        spec = self._rendered.pods[component]["spec"]
        (container,) = spec["containers"]
        left_s = spec["terminationGracePeriodSeconds"]
        if "lifecycle" in container:
            command = container["lifecycle"]["preStop"]["exec"]["command"]
            docker("exec", _container(name, container), *command)
            left_s -= int(command[-1])
        docker("stop", "--time", str(left_s), _container(name, container))
        return int(self.inspect(name, container)["State"]["ExitCode"])

    def logs(self) -> str:
        """Return the last lines of every container."""
        containers = docker("ps", "--all", "--format", "{{.Names}}", "--filter", f"name=^{PREFIX}").split()
        each = [
            subprocess.run(
                ["docker", "logs", "--tail", "15", one], capture_output=True, text=True, check=False
            )
            for one in containers
        ]
        return "\n".join(
            f"== {one}\n{done.stdout}{done.stderr}" for one, done in zip(containers, each, strict=True)
        )

    def _services(self, component: str) -> list[Document]:
        labels = self._rendered.pods[component]["metadata"]["labels"]
        return [
            each
            for each in self._rendered.of("Service")
            if each["spec"]["selector"].items() <= labels.items()
        ]

    def _host(self, service: str) -> str:
        namespace = self._rendered.named("Service", service)["metadata"]["namespace"]
        return f"{service}.{namespace}.svc.cluster.local"

    def _folder_of(self, pod: str, volume: str, spec: Document) -> Path:
        # The kubelet gives an empty folder to the pod's fsGroup.
        folder = self._folder / pod / volume
        folder.mkdir(parents=True)
        os.chown(folder, 0, spec["securityContext"].get("fsGroup", 0))
        folder.chmod(0o2777)
        return folder

    def _volume(self, pod: str, volume: Document, spec: Document) -> Path:
        folder = self._folder_of(pod, volume["name"], spec)
        if "configMap" in volume:
            data = self._rendered.named("ConfigMap", volume["configMap"]["name"])["data"]
            for name, text in data.items():
                (folder / name).write_text(text)
                (folder / name).chmod(0o644)
        elif "secret" in volume:
            data = self._rendered.named("Secret", volume["secret"]["secretName"])["data"]
            for item in volume["secret"]["items"]:
                file = folder / item["path"]
                file.write_bytes(base64.b64decode(data[item["key"]]))
                os.chown(file, 0, spec["securityContext"]["fsGroup"])
                file.chmod(volume["secret"]["defaultMode"])
        return folder

    def _probe(self, name: str, container: Document, probe: Document) -> bool:
        if "exec" in probe:
            command = ["docker", "exec", _container(name, container), *probe["exec"]["command"]]
        else:
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            (network,) = self.inspect(name, container)["NetworkSettings"]["Networks"].values()
            asked = probe["httpGet"]
            url = f"http://{network['IPAddress']}:{ports[asked['port']]}{asked['path']}"
            command = ["curl", "--silent", "--fail", "--max-time", str(probe["timeoutSeconds"]), url]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _container(pod: str, container: Document) -> str:
    return f"{PREFIX}-{pod}-{container['name']}"


def _security(spec: Document, container: Document) -> list[str]:
    of_pod, of_container = spec["securityContext"], container["securityContext"]
    user = of_container.get("runAsUser", of_pod["runAsUser"])
    limits = container["resources"]["limits"]
    arguments = [
        "--user",
        f"{user}:{of_pod['runAsGroup']}",
        "--memory",
        str(int(_quantity(limits["memory"]))),
    ]
    arguments += ["--cpus", f"{_quantity(limits['cpu']):g}", "--group-add", str(of_pod["fsGroup"])]
    arguments += ["--read-only"] if of_container["readOnlyRootFilesystem"] else []
    arguments += [word for each in of_container["capabilities"]["drop"] for word in ("--cap-drop", each)]
    return (
        arguments
        if of_container["allowPrivilegeEscalation"]
        else [*arguments, "--security-opt", "no-new-privileges"]
    )


def _quantity(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)(\w*)", str(text)).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], text)


def _environment(name: str, spec: Document, container: Document) -> dict[str, str]:
    fields = {"metadata.name": name, "metadata.labels['topology.kubernetes.io/zone']": "eu-1a"}
    variables: dict[str, str] = {}
    for each in container.get("env", []):
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            text = fields[source["fieldRef"]["fieldPath"]]
        elif "resourceFieldRef" in source:
            asked = source["resourceFieldRef"]
            (of,) = [one for one in spec["containers"] if one["name"] == asked["containerName"]]
            limit = _quantity(of["resources"]["limits"][asked["resource"].removeprefix("limits.")])
            text = str(round(limit / _quantity(f"1{asked['divisor'][1:]}" if "divisor" in asked else "1")))
        else:
            text = _expanded(each["value"], variables)
        variables[each["name"]] = text
    return variables
