"""The chart refuses wrong values, and all others make a sound release."""

import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from steelyard_controller import flags
from steelyard_controller.declarations.upstream import Upstream

from deploy.tests import chart_invariants, kubernetes_schemas
from deploy.tests.rendered_chart import CHART, RefusedError, read_yaml, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

REDIS_URL = "redis://10.0.0.6:6379/0"


def test_the_schema_knows_each_value_and_no_other() -> None:
    def names(schema: dict[str, Any]) -> Any:
        if "properties" in schema:
            assert schema["additionalProperties"] is False
            return {name: names(each) for name, each in schema["properties"].items() if name != "global"}
        return None

    def named(values: Any, like: Any) -> Any:
        if not isinstance(like, dict):
            return None
        return {name: named(each, like.get(name)) for name, each in values.items()}

    known = names(SCHEMA)
    # The chart leaves the content of these two to the product.
    known["controllers"]["settings"], known["upstreams"] = {}, {}
    for resources in (known[each] for each in ("controllers", "dataplane", "memcached", "redis")):
        resources["resources"] = None
    known["agent"]["daemonset"]["resources"] = None
    assert named(read_yaml((CHART / "values.yaml").read_text(encoding="utf-8")), known) == known


def test_what_the_schema_takes_of_the_controllers_is_theirs() -> None:
    of_settings = SCHEMA["properties"]["controllers"]["properties"]["settings"]["properties"]
    assert of_settings.keys() <= {*(setting.key for setting in flags.SETTINGS), *flags.TABLES}
    (of_upstream,) = SCHEMA["properties"]["upstreams"]["patternProperties"].values()
    assert of_upstream["properties"].keys() == Upstream.model_fields.keys()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"controler": {}}, "additional properties 'controler' not allowed"),
        ({"controllers": {"replicas": 0}}, "at '/controllers/replicas'"),
        ({"controllers": {"settings": {"tick": 1}}}, "additional properties 'tick' not allowed"),
        ({"upstreams": {"a b": {}}}, "'a b'"),
        ({"upstreams": {"web": {"pickr": "vnswrr"}}}, "additional properties 'pickr' not allowed"),
        ({"dataplane": {"service": {"type": "Ingress"}}}, "at '/dataplane/service/type'"),
        ({"dataplane": {"hosts": {"shop.example.org; }": "web"}}}, "'shop.example.org; }' not allowed"),
        ({"dataplane": {"hosts": {"example.org": "web; evil"}}}, "at '/dataplane/hosts/example.org'"),
        ({"discovery": {"namespaces": ["Shop"]}}, "at '/discovery/namespaces/0'"),
        ({"discovery": {"claims": {"Shop": ["web"]}}}, "at '/discovery/claims'"),
        ({"discovery": {"claims": {"shop": ["a b"]}}}, "at '/discovery/claims/shop/0'"),
        ({"memcached": {"servers": "10.0.0.5"}}, "at '/memcached/servers'"),
        ({"redis": {"existing": {"url": "http://10.0.0.6"}}}, "at '/redis/existing/url'"),
        ({"redis": {"existing": {"url": "redis://:s3cr@h:6379/0"}}}, "put it into a Secret"),
        ({"redis": {"existing": {"url": "redis+sentinel://u:s3cr@h:1,h:2/m/0"}}}, "put it into a Secret"),
        ({"redis": {"existing": {"secret": "redis"}}}, "give its address in redis.existing.url"),
        ({"networkPolicy": {"requests": [{"cidr": "10.0.0.0/8"}]}}, "at '/networkPolicy/requests/0'"),
    ],
)
def test_a_mistake_is_named(values: dict[str, Any], says: str) -> None:
    with pytest.raises(RefusedError) as refused:
        render(values)
    assert says in str(refused.value)
    assert "s3cr" not in str(refused.value)


def test_a_large_number_is_written_without_an_exponent() -> None:
    rendered = render({"memcached": {"memoryMB": 1_000_000}})
    (container,) = rendered.pods["memcached"]["spec"]["containers"]
    assert "--memory-limit=1000000" in container["args"]


def test_a_release_of_another_name_has_names_of_its_own() -> None:
    names = {each["metadata"]["name"] for each in render({}, release="edge").documents}
    assert all("edge-steelyard" in name for name in names)
    with pytest.raises(RefusedError, match="choose a shorter one"):
        render({}, release="e" * 40)


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
NAMESPACES = st.lists(NAMES, unique=True, max_size=3)
of = st.fixed_dictionaries
VALUES = of(
    {
        "controllers": of({"replicas": st.integers(1, 9)}),
        "discovery": of(
            {
                "enabled": st.booleans(),
                "namespaces": NAMESPACES,
                "claims": st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2), max_size=2),
            }
        ),
        "dataplane": of(
            {
                "enabled": st.booleans(),
                "replicas": st.integers(1, 12),
                "tlsSecret": st.just("") | NAMES,
                "service": of({"type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"])}),
                "hosts": st.dictionaries(NAMES.map("{}.example.org".format), NAMES, max_size=2),
                "terminationGracePeriodSeconds": st.integers(20, 600),
            }
        ),
        "agent": of({"daemonset": of({"enabled": st.booleans(), "netCapacity": st.integers(0, 10**11)})}),
        "memcached": of({"servers": st.sampled_from(["", "10.0.0.5:11211"])}),
        "redis": st.sampled_from([{}, {"existing": {"url": REDIS_URL}}, {"persistence": {"enabled": False}}]),
        "networkPolicy": of({"enabled": st.booleans(), "agentNamespaces": NAMESPACES}),
        "monitoring": of({"serviceMonitor": of({"enabled": st.booleans()}), "namespace": NAMES}),
        "secrets": of({"existing": st.just("") | NAMES}),
        "xds": of({"secret": st.just("") | NAMES}),
    }
)


# Shrinking a failing example would take hundreds of renderings.
@settings(max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(VALUES)
def test_what_must_hold_holds_whatever_the_values_are(values: dict[str, Any]) -> None:
    rendered = render(values)
    chart_invariants.check(rendered)
    for document in rendered.documents:
        kubernetes_schemas.validate(document, kubernetes_schemas.NEWEST)
