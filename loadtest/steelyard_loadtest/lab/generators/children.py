"""Several processes that make one load together."""

from collections.abc import Sequence

from steelyard_loadtest.lab.generators.child import Child


class Children:
    """What a `Child` is, for several that were started at the same moment; there is at least one."""

    def __init__(self, each: Sequence[Child]) -> None:
        self.each = tuple(each)
        self.name = each[0].name
        self.began_s = each[-1].began_s

    def ended(self) -> bool:
        """Say whether all have ended."""
        ended = [child.ended() for child in self.each]  # every one is asked, or its CPU time stays unknown
        return all(ended)

    def check(self) -> None:
        """Raise ProgramError when one has ended otherwise than well."""
        for child in self.each:
            child.check()

    def stop(self) -> None:
        """Kill them."""
        for child in self.each:
            child.stop()
