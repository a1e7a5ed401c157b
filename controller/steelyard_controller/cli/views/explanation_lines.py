"""Why a peer has its weight: the sentence first, then every figure behind it. Pure."""

import textwrap
from collections.abc import Mapping

from steelyard_controller.cli.api_documents import Explanation, Indicator
from steelyard_controller.cli.terminal.numbers import figure, fixed
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, table
from steelyard_controller.cli.views import peer_table

# A longer line is hard to read even with room for it.
MAX_LINE_WIDTH = 100


def of_explanation(upstream: str, document: Explanation, look: Look) -> list[str]:
    """Return the whole explanation of one weight."""
    before = "" if document.weight_before is None else f" (before: {figure(document.weight_before)})"
    facts = [
        ("law", document.law),
        ("weight", f"{figure(document.weight)}{before}, {document.published} in the table"),
        ("baseline weight", figure(document.baseline)),
        ("score", f"{fixed(document.score, 3)}{', high load somewhere' if document.alert else ''}"),
        ("capacity estimate", figure(document.capacity_estimate)),
        (
            "entropy weights",
            ", ".join(f"{name} {weight:.2f}" for name, weight in document.entropy_weights.items()) or "-",
        ),
        ("clamps hit", ", ".join(document.clamps) or "none"),
        *_indicators(document.indicators),
    ]
    lines = [
        look.line(f"{upstream}/{document.id}", "bold"),
        *_wrapped(document.sentence, look),
        "",
        *_listed("", facts, look),
    ]
    if document.figures:
        figures = [(name, figure(value)) for name, value in document.figures.items()]
        lines += ["", look.line("figures", "dim"), *_listed("  ", figures, look)]
    if document.parameters:
        parameters = [(name, f"{value:g}") for name, value in document.parameters.items()]
        lines += ["", look.line("parameters", "dim"), *_listed("  ", parameters, look)]
    for law, shadow in document.shadows.items():
        verdict = (
            f"would give {shadow.sentence}" if shadow.sentence else f"would give {figure(shadow.weight)}"
        )
        lines += ["", look.line(f"shadow {law}", "dim"), *_wrapped(verdict, look)]
    return lines


def _indicators(indicators: Mapping[str, Indicator]) -> list[tuple[str, str]]:
    # With the four alone there is nothing to add.
    if tuple(indicators) == peer_table.BUILT_IN_INDICATORS:
        return []
    return [(f"indicator {name}", _indicator(each)) for name, each in indicators.items()]


def _indicator(each: Indicator) -> str:
    if not each.used:
        return f"not declared, so without effect; {each.reporting} report it"
    knee = "" if each.knee is None else f"load from {each.knee:g} on, "
    return f"{knee}{each.reporting} report it" if each.reporting else f"{knee}no server reports it"


def _listed(indent: str, facts: list[tuple[str, str]], look: Look) -> list[str]:
    columns: tuple[Column[tuple[str, str]], ...] = (
        Column("", lambda fact: f"{indent}{fact[0]}"),
        Column("", lambda fact: fact[1]),
    )
    return table(columns, facts, look)[1:]


def _wrapped(text: str, look: Look) -> list[str]:
    if look.width is None:
        return [text]
    return textwrap.wrap(text, max(20, min(look.width, MAX_LINE_WIDTH)), break_on_hyphens=False)
