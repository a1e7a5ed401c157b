"""Evidence as a table, with the figures of the sample."""

from collections.abc import Callable
from pathlib import Path

from steelyard_agent import evidence_table
from steelyard_agent.evidence import Evidence, Quantity
from steelyard_agent.readers.scope import Scope, make_reader
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.reading import Absent, sample_between

Plant = Callable[..., Path]


def test_every_figure_has_its_parts_its_files_and_its_limit() -> None:
    rows = [
        Evidence(indicator="scope", value=1.0, sources=("/proc/self/cgroup",), note="cgroup (sure): why"),
        Evidence(
            indicator="cpu",
            value=0.5,
            numerator=Quantity(0.25, "cores"),
            denominator=Quantity(0.5, "cores"),
            sources=("/cg/cpu.stat", "/cg/cpu.max"),
            note="/cg: its quota",
        ),
        Evidence(
            indicator="mem",
            value=0.25,
            numerator=Quantity(512 * 1024 * 1024, "bytes"),
            denominator=Quantity(2 * 1024**3, "bytes"),
            sources=("/cg/memory.current",),
        ),
        Evidence(indicator="net", value=None, numerator=Quantity(1500, "bytes/s"), note="no speed"),
    ]
    assert evidence_table.render(rows).splitlines() == [
        "indicator  value    numerator  denominator  source",
        "scope                       -            -  /proc/self/cgroup",
        "           cgroup (sure): why",
        "cpu        50.0%   0.25 cores    0.5 cores  /cg/cpu.stat",
        "                                            /cg/cpu.max",
        "           /cg: its quota",
        "mem        25.0%      512 MiB        2 GiB  /cg/memory.current",
        "net         null  1.465 KiB/s            -  -",
        "           no speed",
    ]


def test_what_is_explained_is_what_is_sent(plant: Plant) -> None:
    root = plant("machine", "v2-container")
    scopes: tuple[Scope, ...] = ("host", "cgroup")
    for scope in scopes:
        times = iter([1.0, 2.0])
        made = make_reader(scope, root=root, clock=times.__next__, extras=True)
        before, after = made.read(), made.read()
        assert not isinstance(before, Absent)
        assert not isinstance(after, Absent)
        taken = sample_between(before, after, NOTHING)
        assert taken is not None
        values = {one.indicator: one.value for one in taken.evidence}
        sent = taken.utilization
        assert (values["cpu"], values["net"], values["io"], values["mem"]) == (
            sent.cpu, sent.net, sent.io, sent.mem,
        )  # fmt: skip
        for one in taken.evidence:
            if one.value is not None:
                assert one.numerator is not None
                assert one.denominator is not None
                assert one.sources
            else:
                assert one.note
