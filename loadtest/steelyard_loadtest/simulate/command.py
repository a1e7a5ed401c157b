"""`steelyard-loadtest simulate`: one subcommand a study, each of which adds itself."""

import argparse
from typing import TYPE_CHECKING

from steelyard_loadtest.simulate.ns3 import command as ns3
from steelyard_loadtest.simulate.studies.scale import command as scale
from steelyard_loadtest.simulate.studies.stability import command as stability

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

# Each a module with add_parser(subparsers), whose parser sets `run`.
STUDIES = (ns3, scale, stability)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the subcommand `simulate`."""
    parser = subparsers.add_parser(
        "simulate", help="the shipped laws and pickers on simulated servers: the ns-3 study, scale, stability"
    )
    studies = parser.add_subparsers(required=True, metavar="STUDY")
    for study in STUDIES:
        study.add_parser(studies)
