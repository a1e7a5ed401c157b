"""The chart in six sets of values: valid, hardened, complete, and as each set asks."""

import re
from typing import Any

import jsonschema
import pytest
from steelyard_controller.settings import load

from deploy.tests import chart_invariants, kubernetes_schemas
from deploy.tests.rendered_chart import (
    CHART,
    ROOT,
    SETS,
    Rendered,
    environment,
    helm,
    matches,
    of_set,
    read_yaml,
    render,
)

COMPOSE = read_yaml((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


@pytest.fixture(params=sorted(SETS))
def rendered(request: pytest.FixtureRequest) -> Rendered:
    return of_set(request.param)


@pytest.mark.parametrize("name", sorted(SETS))
def test_helm_finds_nothing(name: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", str(SETS[name]))


@pytest.mark.parametrize("version", [kubernetes_schemas.OLDEST, kubernetes_schemas.NEWEST])
def test_every_object_is_one_that_kubernetes_knows(rendered: Rendered, version: str) -> None:
    for document in rendered.documents:
        kubernetes_schemas.validate(document, version)


def test_an_object_that_no_cluster_takes_is_found() -> None:
    document = of_set("default").named("Service", "steelyard-redis")
    with pytest.raises(jsonschema.ValidationError, match="is not of type"):
        kubernetes_schemas.validate(document | {"spec": {"ports": "6379"}}, kubernetes_schemas.NEWEST)


def test_what_must_hold_holds(rendered: Rendered) -> None:
    chart_invariants.check(rendered)


def test_nothing_is_there_twice(rendered: Rendered) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered.documents
    ]
    assert len(set(names)) == len(names)


def test_the_controllers_take_their_file(rendered: Rendered, tmp_path: Any) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(rendered.named("ConfigMap", "steelyard-controller")["data"]["controller.yaml"])
    upstreams = load(["--config", str(path)], {}).upstreams
    for upstream in upstreams.values():
        upstream.made_laws()


def test_every_namespaced_object_says_its_namespace(rendered: Rendered) -> None:
    for each in rendered.documents:
        assert ("namespace" in each["metadata"]) != each["kind"].startswith("ClusterRole")


def test_the_default_is_two_of_what_requests_and_decisions_need() -> None:
    default = of_set("default")
    replicas = {component: each["spec"].get("replicas") for component, each in default.workloads.items()}
    assert replicas == {"controller": 2, "dataplane": 2, "memcached": 1, "redis": 1}
    budgets = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in default.of("PodDisruptionBudget")
    }
    assert budgets == {"controller", "dataplane"}
    for component in budgets:
        terms = default.pods[component]["spec"]["affinity"]["podAntiAffinity"]
        (term,) = terms["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


def test_each_controller_has_a_name_and_an_address_that_the_others_reach() -> None:
    default = of_set("default")
    (container,) = default.pods["controller"]["spec"]["containers"]
    env = environment(container)
    assert env["STEELYARD_ID"] == "<metadata.name>"
    pod, _, rest = env["STEELYARD_ADVERTISE_URL"].removeprefix("http://").partition(".")
    assert pod == "$(STEELYARD_ID)"
    service = default.workloads["controller"]["spec"]["serviceName"]
    assert rest == f"{service}.lb.svc.cluster.local:8081"
    assert default.named("Service", service)["spec"]["publishNotReadyAddresses"] is True
    # nginx asks the same addresses, one by one.
    (nginx,) = default.pods["dataplane"]["spec"]["containers"]
    wanted = [env["STEELYARD_ADVERTISE_URL"].replace(pod, f"steelyard-controller-{n}") for n in range(2)]
    assert environment(nginx)["STEELYARD_CONTROLLER"].split(",") == wanted


def test_the_controllers_know_the_names_of_the_load_balancers() -> None:
    for name in ("default", "existing-stores"):
        (controller,) = of_set(name).pods["controller"]["spec"]["containers"]
        data_plane = of_set(name).workloads["dataplane"]
        names = [f"{data_plane['metadata']['name']}-{n}" for n in range(data_plane["spec"]["replicas"])]
        assert environment(controller)["STEELYARD_LOAD_BALANCERS"].split(",") == names
        (nginx,) = data_plane["spec"]["template"]["spec"]["containers"]
        assert environment(nginx)["STEELYARD_LB"] == "<metadata.name>"


def test_controllers_and_nginx_have_the_name_of_their_installation_if_there_are_several() -> None:
    for component in ("controller", "dataplane"):
        (named,) = of_set("existing-stores").pods[component]["spec"]["containers"]
        assert environment(named)["STEELYARD_INSTALLATION"] == "shop"
        (only,) = of_set("default").pods[component]["spec"]["containers"]
        assert "STEELYARD_INSTALLATION" not in environment(only)


def test_nginx_is_told_its_nodes_zone_unless_the_values_say_no() -> None:
    (without,) = render({"dataplane": {"zones": False}}).pods["dataplane"]["spec"]["containers"]
    assert "STEELYARD_ZONE" not in {each["name"] for each in without["env"]}
    (container,) = of_set("default").pods["dataplane"]["spec"]["containers"]
    (zone,) = [each for each in container["env"] if each["name"] == "STEELYARD_ZONE"]
    path = "metadata.labels['topology.kubernetes.io/zone']"
    assert zone["valueFrom"]["fieldRef"]["fieldPath"] == path


def test_nginx_is_given_time_to_finish() -> None:
    spec = of_set("default").pods["dataplane"]["spec"]
    (container,) = spec["containers"]
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    config = of_set("default").named("ConfigMap", "steelyard-dataplane")["data"]["nginx.conf"]
    (shutdown,) = re.findall(r"worker_shutdown_timeout (\d+)s;", config)
    assert int(seconds) + int(shutdown) < spec["terminationGracePeriodSeconds"]
    assert "STOPSIGNAL SIGQUIT" in (ROOT / "openresty/Dockerfile").read_text(encoding="utf-8")


def test_the_images_are_those_of_the_compose_file() -> None:
    images = {component: container["image"] for component, container in of_set("default").containers}
    for component in ("memcached", "redis"):
        assert images[component] == COMPOSE["services"][component]["image"]
    dockerfiles = {path.parent.name for path in ROOT.glob("*/Dockerfile")}
    assert {images["controller"], images["dataplane"]} == {
        "steelyard-controller:0.1.0",
        "steelyard-openresty:0.1.0",
    }
    assert {"controller", "openresty", "agent"} <= dockerfiles


def test_discovery_may_read_services_and_endpointslices_and_nothing_else() -> None:
    reads = {
        ("controller", what, verb)
        for what in ("services", "endpointslices")
        for verb in ("get", "list", "watch")
    }
    assert set(chart_invariants.verbs(of_set("default"))) == reads
    assert {each["kind"] for each in of_set("default").of("Role", "ClusterRole")} == {"ClusterRole"}
    per_namespace = of_set("daemonset")
    assert set(chart_invariants.verbs(per_namespace)) == reads | {("agent", "pods", "list")}
    assert {each["metadata"]["namespace"] for each in per_namespace.of("Role", "RoleBinding")} == {
        "shop",
        "payments",
    }
    assert set(chart_invariants.verbs(of_set("least"))) == set()
    assert of_set("least").pods["controller"]["spec"]["automountServiceAccountToken"] is False


def test_namespaces_may_claim_what_the_values_give_them_and_anything_where_these_say_nothing(
    tmp_path: Any,
) -> None:
    path = tmp_path / "controller.yaml"
    for name, allowed in (
        ("daemonset", {"shop": ["shop", "shop-*"], "payments": ["payments"]}),
        ("default", None),
    ):
        path.write_text(of_set(name).named("ConfigMap", "steelyard-controller")["data"]["controller.yaml"])
        assert load(["--config", str(path)], {}).kubernetes_claims == allowed


def test_what_is_there_already_is_not_made_again() -> None:
    assert of_set("existing-stores").workloads.keys() == {"controller", "dataplane"}
    assert of_set("existing-stores").of("Secret") == []
    assert of_set("least").workloads.keys() == {"controller"}
    (container,) = of_set("existing-stores").pods["controller"]["spec"]["containers"]
    assert "/run/secrets/redis/redis-password" in environment(container).values()
    assert environment(container)["STEELYARD_TOKENS_FILE"] == "/run/secrets/tokens/tokens"
    (container,) = of_set("default").pods["controller"]["spec"]["containers"]
    assert "STEELYARD_TOKENS_FILE" not in environment(container)


def test_secrets_are_made_at_random_each_its_own() -> None:
    made = [render({}).named("Secret", "steelyard")["data"] for _ in range(2)]
    values = [value for each in made for value in each.values()]
    assert made[0].keys() == {"steelyard_key", "admin_token", "redis_password"}
    assert len(set(values)) == 6
    assert all(len(value) == 64 for value in values)  # 48 letters and digits, in base64


def test_alerts_and_dashboard_are_those_of_the_folder_monitoring() -> None:
    rendered = of_set("monitoring")
    alerts = read_yaml((ROOT / "monitoring/alerts.yml").read_text(encoding="utf-8"))
    (rule,) = rendered.of("PrometheusRule")
    assert rule["spec"] == alerts
    shown = rendered.named("ConfigMap", "steelyard-dashboard")["data"]["steelyard.json"]
    assert (
        shown.strip()
        == (ROOT / "monitoring/grafana/dashboards/steelyard.json").read_text(encoding="utf-8").strip()
    )
    assert of_set("default").of("ServiceMonitor", "PodMonitor", "PrometheusRule") == []


def test_controllers_send_spans_where_the_values_name_a_collector() -> None:
    def endpoint(name: str) -> str | None:
        (container,) = of_set(name).pods["controller"]["spec"]["containers"]
        return environment(container).get("OTEL_EXPORTER_OTLP_ENDPOINT")

    assert endpoint("monitoring") == "http://collector.observability:4318"
    assert endpoint("default") is None


def test_prometheus_gets_the_jobs_that_alerts_and_dashboard_ask_for() -> None:
    rendered = of_set("monitoring")
    jobs = {}
    for monitor in rendered.of("ServiceMonitor"):
        selector = monitor["spec"]["selector"]
        (service,) = [
            each for each in rendered.of("Service") if matches(selector, each["metadata"]["labels"])
        ]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["relabelings"] == [{"targetLabel": "install", "replacement": "steelyard"}]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        jobs[service["metadata"]["labels"][monitor["spec"]["jobLabel"]]] = endpoint["path"]
    scraped = read_yaml((ROOT / "monitoring/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert jobs == {each["job_name"]: each.get("metrics_path", "/metrics") for each in scraped}
