"""One measurement of each kind."""

from steelyard_loadtest.dataplane.contenders import BASE, Contender
from steelyard_loadtest.dataplane.peers import reweighed
from steelyard_loadtest.dataplane.records import Measured, Reweighed
from steelyard_loadtest.dataplane.rig import Rig
from steelyard_loadtest.dataplane.schedule import Step

WINDOW_S = 5
"""Before and after a change of weights, each."""

THINKERS, THINK_MS = 16, 5
"""About 3000 requests/s: a tenth of what a proxy can do, so that a pause of it is seen as one."""

CHANGES = 2
"""There and back, so that a round ends with the weights that it began with."""


def cost(rig: Rig, step: Step, seconds: int) -> Measured:
    """Measure what a request costs a contender. Raises ProgramError."""
    with rig.proxy(step.contender, step.peers) as proxy:
        rig.warm_up(proxy)
        before_s = proxy.process.cpu_s() if proxy.process else 0.0
        load = rig.load(proxy.url, seconds=seconds)
        return Measured(
            contender=step.contender.name,
            peers=step.peers,
            round=step.round,
            load=load,
            cpu_s=proxy.process.cpu_s() - before_s if proxy.process else None,
            resident_bytes=proxy.process.resident_bytes() if proxy.process else None,
        )


def change(rig: Rig, step: Step) -> list[Reweighed]:
    """Change all weights under load, there and back; nginx's own are left alone. Raises ProgramError."""
    found = []
    with rig.proxy(step.contender, step.peers) as proxy:
        rig.warm_up(proxy)
        servers = proxy.scene.peers
        for number in range(CHANGES):
            before = rig.load(proxy.url, seconds=WINDOW_S, connections=THINKERS, think_ms=THINK_MS)
            servers = reweighed(servers)
            generation = proxy.publisher.change(servers) if proxy.publisher else None
            after = rig.load(proxy.url, seconds=WINDOW_S, connections=THINKERS, think_ms=THINK_MS)
            if generation is not None:
                rig.wait_for_table(step.contender, generation)
            found.append(
                Reweighed(
                    contender=step.contender.name,
                    peers=step.peers,
                    round=CHANGES * (step.round - 1) + number + 1,
                    before=before,
                    after=after,
                )
            )
    return found


def can_be_reweighed(contender: Contender) -> bool:
    """Tell whether a contender takes its weights from a table, or is what those are held against."""
    return contender.program == "steelyard" or contender.name == BASE
