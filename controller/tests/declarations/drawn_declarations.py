"""Declarations drawn from their own models: a new field is drawn without a change here.

The models' JSON schemas give the values of a field. `OF_FIELDS` has those that a schema cannot describe, and
`FIRST` the fields without which a model has no valid document. A drawn value that contradicts the others is
left out.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from steelyard_controller import laws
from steelyard_controller.declarations import upstream as models
from steelyard_controller.declarations.upstream import Peer, Upstream

# Few, so that two drawn upstreams share some. YAML would read half of them as something other than a text.
IDS = ("a", "b", "1e5", "1.50", "no", "2026-01-01")


def _parameters() -> st.SearchStrategy[dict[str, float]]:
    every = {each.name: each for law in laws.NAMES for each in laws.parameters_of(law)}
    of_each = {name: st.floats(each.low, each.high) for name, each in every.items()}
    return st.dictionaries(st.sampled_from(sorted(every)), st.none(), max_size=1).flatmap(
        lambda drawn: st.fixed_dictionaries({name: of_each[name] for name in drawn})
    )


_LAWS = st.sampled_from(laws.NAMES)

OF_FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "Upstream.law": _LAWS,
    "Upstream.parameters": _parameters(),
    "Upstream.shadows": st.dictionaries(_LAWS, _parameters(), max_size=2),
    "Blend.law": _LAWS,
    "Blend.parameters": _parameters(),
    "Peer.id": st.sampled_from(IDS),
    "Peer.address": st.sampled_from(["10.0.0.1:80", "[fd00::1]:80", "shop.example:8080"]),
    # Any six of them leave something to the others.
    "Peer.pin": st.none() | st.floats(0.5, 16),
}

FIRST: Mapping[str, Mapping[str, Any]] = {
    "Peer": {"id": "a", "address": "10.0.0.9:80"},
    "Check": {"path": "/healthz"},
    "Blend": {"law": "cswrr", "percent": 5},
}


@cache
def documents(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """Return valid documents of a model."""
    drawn_of = {name: values(model, name) for name in _schema(model)["properties"]}

    @st.composite
    def drawn(draw: st.DrawFn) -> dict[str, Any]:
        document = dict(FIRST.get(model.__name__, {}))
        for name, of_field in drawn_of.items():
            if draw(st.booleans()):
                further = document | {name: draw(of_field)}
                if _is_valid(model, further):
                    document = further
        return document

    return drawn()


@cache
def values(model: type[BaseModel], field: str) -> st.SearchStrategy[Any]:
    """Return values of a field of a model."""
    if (model, field) == (Upstream, "peers"):
        return st.lists(documents(Peer), max_size=len(IDS), unique_by=lambda peer: peer["id"])
    known = OF_FIELDS.get(f"{model.__name__}.{field}")
    return _of_schema(_schema(model)["properties"][field]) if known is None else known


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _of_schema(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return documents(getattr(models, schema["$ref"].rpartition("/")[2]))
    if "anyOf" in schema:
        return st.one_of(*map(_of_schema, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            lowest, highest = (
                schema.get(name, schema.get(f"exclusive{name.title()}")) for name in ("minimum", "maximum")
            )
            return st.floats(
                lowest,
                highest,
                exclude_min="exclusiveMinimum" in schema,
                exclude_max="exclusiveMaximum" in schema,
            )
        case "string":
            return st.from_regex(schema.get("pattern", "^[a-z]{1,8}$"), fullmatch=True)
        case "array":
            return st.lists(_of_schema(schema["items"]), min_size=schema.get("minItems", 0), max_size=4)
        case "object":
            ((names, of_each),) = schema["patternProperties"].items()
            size = schema.get("minProperties", 0)
            keys = st.from_regex(names, fullmatch=True)
            return st.dictionaries(keys, _of_schema(of_each), min_size=size, max_size=3)
    raise AssertionError(f"draw {schema} here")


def _is_valid(model: type[BaseModel], document: Mapping[str, Any]) -> bool:
    try:
        model.model_validate(document, strict=True)
    except ValidationError:
        return False
    return True
