"""What servers can truly do, over time: what the published weights should say. Pure."""

import numpy as np
from steelyard_controller.snapshot import Floats

from steelyard_loadtest.simulate.model import Case


def capacities(case: Case, at_s: Floats) -> Floats:
    """Return what every server can do at these times, on one scale: times by servers."""
    table = np.empty((len(at_s), len(case.servers)))
    for column, server in enumerate(case.servers):
        factor = np.ones(len(at_s))
        for step in server.steps:
            factor = np.where(at_s >= step.at_s, step.factor, factor)
        table[:, column] = server.cores * server.speed * factor
    return table
