"""A scenario's tables about its fleet: the servers needed, and how evenly CPU is used. Pure."""

from functools import partial

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.view import View
from steelyard_loadtest.figures.servers_needed import Need, Needs, needs
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import Column, Table, table
from steelyard_loadtest.scenario.algorithms import DEFAULT
from steelyard_loadtest.scenario.definition import Fleet

DROPBOX = (
    "Dropbox reports 1.26 before Robinhood's controllers and 1.01 with them for one cluster, and 1.4 and 1.05"
    " for another; its article could be read only in part."
)


def needs_of(view: View) -> Needs | None:
    """Return how many servers each algorithm needs; None without such a question, or without an answer."""
    return needs(view.summaries, view.scenario.fleet, len(view.scenario.servers))


def fleet_tables(view: View) -> list[Table]:
    """Return the tables of the fleet's questions; none without them."""
    fleet = view.scenario.fleet
    if fleet is None or not view.summaries:
        return []
    known = needs_of(view)
    return [*([_servers(view, known)] if known else []), _evenness(view, fleet)]


def answers(view: View) -> list[str]:
    """Summarize the answers, a sentence each; none without questions about the fleet."""
    fleet, known = view.scenario.fleet, needs_of(view)
    sentences = []
    if known and (own := known.of(DEFAULT)) and own.servers is not None:
        reference = scenario_text.title(known.fleet.reference)
        others = [
            f"{_number(need)} with {scenario_text.title(need.algorithm)}"
            for need in known.each
            if need.servers is not None and need.algorithm not in (DEFAULT, known.fleet.reference)
        ]
        sentences.append(
            f"At one p99, {_number(own)} servers carry with {scenario_text.title(DEFAULT)} what"
            f" {len(view.scenario.servers)} carry with {reference}"
            + (f" ({', '.join(others)})." if others else ".")
        )
    ratio = view.spread(DEFAULT, fleet.level, "utilization_ratio") if fleet else None
    if fleet and ratio:
        sentences.append(
            f"The largest CPU utilization is {wording.ratio(ratio.median)} times the mean at"
            f" {scenario_text.level(view.scenario.load, fleet.level)}: the target of"
            f" {fleet.utilization_ratio:g} for utilization is {_met(ratio.median, fleet)}."
        )
    return sentences


def _met(ratio: float, fleet: Fleet) -> str:
    return "met" if ratio <= fleet.utilization_ratio else "not met"


def _servers(view: View, known: Needs) -> Table:
    load = view.scenario.load
    reference = known.of(known.fleet.reference)
    name = scenario_text.title(known.fleet.reference)
    columns = [
        Column[Need]("algorithm", lambda need: scenario_text.title(need.algorithm), "left"),
        Column[Need]("kind", lambda need: scenario_text.kind(need.algorithm), "left"),
        Column[Need](f"highest load, {scenario_text.level_unit(load)}", partial(_load, view, known)),
        Column[Need]("servers", lambda need: _number(need)),
        Column[Need]("saved", lambda need: _saved(need, reference)),
    ]
    note = (
        f"The highest load with a p99 of at most {wording.number(known.bound_ms)} ms. This is"
        f" {known.fleet.p99_times:g} times the p99 of {name} at"
        f" {scenario_text.level(load, known.lowest)}; the factor was declared before anything was measured."
        " Between two levels the logarithm of p99 is taken to be linear. The servers are of the same mixture,"
        f" and carry what {len(view.scenario.servers)} carry with {name}. ≤ marks a largest possible number."
        " Then p99 was within the bound up to the highest level, or is not known above."
    )
    title = "Servers needed for the same load at one p99"
    return table(known.each, columns, title=title, note=note, bold=lambda need: need.algorithm == DEFAULT)


def _load(view: View, known: Needs, need: Need) -> str:
    if need.carried is None:
        return f"under {scenario_text.level_number(view.scenario.load, known.lowest)}"
    scale = 100 if view.scenario.load.of_capacity else 1
    return f"{'≥ ' if need.carried.at_least else ''}{need.carried.level * scale:.0f}"


def _number(need: Need) -> str:
    return f"{need.bound}{wording.number(need.servers, 1)}" if need.servers is not None else wording.ABSENT


def _saved(need: Need, reference: Need | None) -> str | None:
    if need.servers is None or reference is None or reference.servers is None or need is reference:
        return None
    sign = {"≤ ": "≥ ", "≥ ": "≤ "}.get(need.bound, "")
    return f"{sign}{wording.percent(1 - need.servers / reference.servers)}"


def _evenness(view: View, fleet: Fleet) -> Table:
    load = view.scenario.load
    names = [name for name in view.scenario.algorithms if name in view.algorithms]
    target = scenario_text.level(load, fleet.level)

    def ratio(level: float, metric: str, name: str) -> str:
        known = view.spread(name, level, metric)
        if known is None:
            return wording.ABSENT
        judged = name == DEFAULT and level == fleet.level and metric == "utilization_ratio"
        return wording.ratio(known.median) + (f" ({_met(known.median, fleet)})" if judged else "")

    columns = [
        Column[str]("algorithm", scenario_text.title, "left"),
        *(
            Column[str](scenario_text.level(load, level), partial(ratio, level, "utilization_ratio"))
            for level in view.levels
        ),
        Column[str](f"by second at {target}", partial(ratio, fleet.level, "median_utilization_ratio")),
    ]
    note = (
        "Each server's own CPU time over what it might have had, which is its quota less the neighbour's"
        " part. The ratio is the largest over the mean of all servers. The target is for the default over the"
        f" whole counted time at {target}: at most {fleet.utilization_ratio:g}, declared before anything was"
        " measured. *By second* is the median of the seconds' ratios, which contain the chance in a second's"
        " requests. A full server reads 1, so a ratio near 1 may also mean that all are full."
        f" {DROPBOX}"
    )
    title = "Largest over mean CPU utilization"
    return table(names, columns, title=title, note=note, bold=DEFAULT.__eq__)
