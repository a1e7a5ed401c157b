"""Values of a declaration in one line, as an operator writes them: YAML's flow style. Pure.

    None -> none    True -> true    0.30 -> 0.3    [200, 204] -> [200, 204]    a model -> {path: /healthz}

A model shows the fields that differ from their defaults.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

ABSENT = "none"


def shown(value: object) -> str:
    """Return a value as text."""
    match value:
        case None:
            return ABSENT
        case bool():
            return "true" if value else "false"
        case float():
            # Twelve digits: more than anybody declares, and fewer than a sum's rounding error shows.
            return f"{value:.12g}"
        case BaseModel():
            return shown({name: getattr(value, name) for name in _named(value)})
        case Mapping():
            return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(shown(each) for each in value) + "]"
    return str(value)


def changes(name: str, before: object, after: object) -> Iterator[str]:
    """Yield each change of a value as `name BEFORE -> AFTER`; fields of a model or a mapping one by one."""
    old, new = _fields(before), _fields(after)
    if old is None or new is None:
        if before != after:
            yield f"{name} {shown(before)} -> {shown(after)}"
        return
    for each in {**old, **new}:
        yield from changes(f"{name}.{each}", old.get(each), new.get(each))


def _fields(value: object) -> Mapping[str, object] | None:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return value if isinstance(value, Mapping) else None


def _named(model: BaseModel) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        if field.is_required() or getattr(model, name) != field.get_default(call_default_factory=True):
            yield name
