"""Draw a law's decisions: shares, scores against H and L, and the estimates, over time.

Needs matplotlib, which is optional (`pip install 'steelyard-controller[plot]'`).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from steelyard_protocol import whole_file

from steelyard_controller.laws.decision import Decision

# With more lines in one panel, a reader cannot distinguish them.
MOST_PEERS = 20


def plot(decisions: Sequence[Decision], path: Path) -> None:
    """Write a picture of the decisions; the format is the file name's (png, svg, pdf).

    Raises ImportError without matplotlib, ValueError for an unknown format, OSError for the file.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    seen = dict.fromkeys(peer for decision in decisions for peer in decision.ids)
    peers = list(seen)[:MOST_PEERS]
    t_s = [decision.t_s for decision in decisions]
    figure, (top, middle, bottom) = plt.subplots(3, 1, sharex=True, figsize=(9, 8), layout="constrained")
    for peer in peers:
        rows = [decision.ids.index(peer) if peer in decision.ids else -1 for decision in decisions]
        at = list(zip(decisions, rows, strict=True))
        weight = [d.weights[row] / d.total if row >= 0 else np.nan for d, row in at]
        (line,) = top.plot(t_s, weight, drawstyle="steps-post", label=peer)
        baseline = [d.baseline[row] / d.total if row >= 0 else np.nan for d, row in at]
        top.plot(t_s, baseline, color=line.get_color(), linewidth=0.8, linestyle=":")
        middle.plot(t_s, [d.score[row] if row >= 0 else np.nan for d, row in at], color=line.get_color())
        estimate = [d.capacity_estimate[row] if row >= 0 else np.nan for d, row in at]
        bottom.plot(t_s, estimate, color=line.get_color())
    parameters = decisions[-1].parameters if decisions else {}
    for name in ("H", "L"):
        if name in parameters:
            middle.axhline(parameters[name], color="grey", linestyle="--", linewidth=0.8)
            middle.annotate(name, (1.005, parameters[name]), xycoords=("axes fraction", "data"))
    alert = np.array([decision.alert for decision in decisions], dtype=bool)
    if alert.any():
        middle.fill_between(t_s, 0, 1, where=alert, color="tab:red", alpha=0.1, step="post", label="alert")
        middle.legend(loc="lower right")
    law = decisions[-1].law if decisions else "nothing"
    shown = f", {len(peers)} of {len(seen)} servers" if len(seen) > len(peers) else ""
    top.set_title(f"law {law}{shown}")
    top.set_ylabel("share (dotted: baseline)")
    middle.set_ylabel("score U")
    middle.set_ylim(0, 1.02)
    bottom.set_ylabel("capacity estimate\n(requests per busy second)")
    bottom.set_xlabel("t (s)")
    for axis in (top, bottom):
        axis.set_ylim(bottom=0)
    if peers:
        top.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    try:
        with whole_file.replacing(path) as fresh:
            figure.savefig(fresh, dpi=110)
    finally:
        plt.close(figure)
