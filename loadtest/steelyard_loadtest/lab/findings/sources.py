"""The five sources. Pure."""

from steelyard_loadtest.lab.findings import entropy_paper, locust_study, ns3, tengine, vproxy

SOURCES = (locust_study.SOURCE, entropy_paper.SOURCE, ns3.SOURCE, vproxy.SOURCE, tengine.SOURCE)
