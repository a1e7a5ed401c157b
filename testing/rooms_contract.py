"""import-linter's rule for the rooms of our packages: each imports only from rooms below, and all are named.

One contract holds every package to its own rooms; import-linter's `layers` with `exhaustive` would need one
for each package. Rooms in one line do not know each other if "|" separates them; with ":" they may.
"""

from typing import Any

from importlinter import Contract, ContractCheck, fields
from importlinter.contracts.layers import LayersContract


class RoomsContract(Contract):
    """The rooms of each package, the highest first."""

    steelyard_protocol: Any = fields.ListField(subfield=fields.StringField())
    steelyard_agent: Any = fields.ListField(subfield=fields.StringField())
    steelyard_reporter: Any = fields.ListField(subfield=fields.StringField())
    steelyard_controller: Any = fields.ListField(subfield=fields.StringField())
    steelyard_loadtest: Any = fields.ListField(subfield=fields.StringField())
    steelyard_simulator: Any = fields.ListField(subfield=fields.StringField())
    steelyard_resilience: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:  # noqa: ANN401 (grimp has no types)
        """Return whether every package keeps to its rooms."""
        broken = []
        for package in self.session_options["root_packages"]:
            options = {"containers": [package], "layers": getattr(self, package), "exhaustive": "true"}
            layers = LayersContract(package, self.session_options, options)
            check = layers.check(graph, verbose)
            if not check.kept:
                broken.append((layers, check))
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each upward or sideways import, and each room without a place."""
        for layers, broken in check.metadata["broken"]:
            layers.render_broken_contract(broken)
