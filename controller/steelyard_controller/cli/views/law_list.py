"""The control laws and their parameters as lines. Pure."""

from steelyard_controller import laws


def lines() -> list[str]:
    """Return a heading for each law and a line for each parameter: default, unit, bounds, reason."""
    said = []
    for name in laws.NAMES:
        said.append(name)
        for each in laws.parameters_of(name):
            bounds = f"{each.low:g}..{each.high:g}"
            said.append(f"  {each.name:<11} {each.default:<8g} {each.unit:<12} {bounds:<14} {each.reason}")
    return said
