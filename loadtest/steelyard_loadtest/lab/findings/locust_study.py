"""What the locust study found: Tamanaha, Domingues, Bittencourt, IC-PFG-21-49 (2021). Pure."""

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.findings.checks import Within
from steelyard_loadtest.lab.findings.finding import Finding, Source
from steelyard_loadtest.lab.findings.locust_checks import (
    EVERY,
    HARDLY_ANY,
    alike,
    all_but,
    beside,
    best,
    fails,
    named,
    ratio,
)
from steelyard_loadtest.lab.findings.locust_tables import TABLES

NO_SUCH_LIMIT = (
    "it needs nginx's default limit of 768 connections with every algorithm; only round robin has a form "
    "with it (`nginx-rr-768`)"
)

_FAILED_RR = f"{TABLES['RR'][500].failures_part:.2f}"

FINDINGS = (
    Finding(
        statement="Round robin is limited by the weak server.",
        where="§4.1, tables 1, 11, 15",
        checks=(ratio("requests_per_s", "RR", "LC", 100), ratio("requests_per_s", "RR", "LC", 250)),
        beside=(beside("requests_per_s", "highest", ("RR",), 250),),
    ),
    Finding(
        statement="Weight 3 on the strong server doubles round robin's throughput.",
        where="§4.2.1, tables 1, 3, 15",
        checks=(
            ratio("requests_per_s", "WRR-srv1", "RR", 100),
            ratio("requests_per_s", "WRR-srv1", "RR", 250),
        ),
        beside=(beside("requests_per_s", "highest", ("WRR-srv1",), 250),),
    ),
    Finding(
        statement="Weight 3 on the weak server is worse than round robin.",
        where="§4.2.2, tables 1, 2, 5, 6",
        checks=(
            ratio("requests_per_s", "WRR-srv2", "RR", 100),
            ratio("requests_per_s", "WRR-srv2", "RR", 250),
            ratio("mean_ms", "WRR-srv2", "RR", 250),
        ),
    ),
    Finding(
        statement="IP hash sends every request of one client address to one server.",
        where="§4.3",
        checks=(
            Within(
                metric="largest_share",
                named=(named("IPH-srv1", 250), named("IPH-srv2", 250)),
                published="all requests",
                at_least=0.99,
            ),
        ),
    ),
    Finding(
        statement="IP hash to the strong server comes near weight 3 on it, but does less.",
        where="§4.3.1, tables 3, 7, 15",
        checks=(
            ratio("requests_per_s", "IPH-srv1", "WRR-srv1", 250),
            ratio("requests_per_s", "IPH-srv1", "RR", 250),
        ),
    ),
    Finding(
        statement="IP hash to the strong server fails for a larger part of the requests than weight 3 on it.",
        where="§4.3.1, tables 3 and 7 at 500 users",
        cannot=NO_SUCH_LIMIT,
    ),
    Finding(
        statement="IP hash to the weak server is the worst of all: less than round robin, the longest mean "
        "and median.",
        where="§4.3.2, §4.6.1, tables 15 and 16",
        checks=(
            ratio("requests_per_s", "IPH-srv2", "RR", 250),
            best("requests_per_s", "lowest", "IPH-srv2", all_but("IPH-srv2"), 250),
            best("mean_ms", "highest", "IPH-srv2", all_but("IPH-srv2"), 250),
            best("p50_ms", "highest", "IPH-srv2", all_but("IPH-srv2"), 250),
        ),
    ),
    Finding(
        statement="With IP hash to the weak server failures begin at 250 users, where no other has any.",
        where="§4.3.2, tables 9 and 15",
        checks=(
            Within(
                metric="failures_per_s",
                named=(named("IPH-srv2", 250),),
                published=f"{TABLES['IPH-srv2'][250].failures_per_s:g}",
                at_least=0.01,
            ),
            Within(
                metric="failures_per_s",
                named=tuple(named(name, 250) for name in all_but("IPH-srv2")),
                published="0",
                at_most=0.0,
            ),
        ),
    ),
    Finding(
        statement="Least connections has the best throughput, but for weighted least connections.",
        where="§4.4, tables 11 and 15",
        checks=(
            best("requests_per_s", "highest", "LC", all_but("LC", "WLC"), 100),
            best("requests_per_s", "highest", "LC", all_but("LC", "WLC"), 250),
        ),
        beside=(beside("requests_per_s", "highest", ("LC",), 250),),
    ),
    Finding(
        statement="Least connections does somewhat more than weight 3 on the strong server.",
        where="§4.4, tables 3 and 11",
        checks=(
            ratio("requests_per_s", "LC", "WRR-srv1", 100),
            ratio("requests_per_s", "LC", "WRR-srv1", 250),
        ),
    ),
    Finding(
        statement="Weighted least connections does as well as least connections.",
        where="§4.5, tables 11 to 14",
        checks=(
            alike("requests_per_s", ("LC", "WLC"), 100),
            alike("requests_per_s", ("LC", "WLC"), 250),
            alike("mean_ms", ("LC", "WLC"), 250),
        ),
    ),
    Finding(
        statement="Weight 3 on the strong server has the best median latency.",
        where="§4.6.1.1, table 16, figure 7",
        why="with round robin nearly all users wait at the weak server here, so half of the requests meet "
        "a strong server that is nearly idle, and the median falls between the two halves; in the "
        "study the strong server was busy too (round robin's median is 720 ms)",
        checks=(best("p50_ms", "lowest", "WRR-srv1", all_but("WRR-srv1"), 250),),
        beside=(beside("p50_ms", "lowest", ("WRR-srv1",), 250),),
    ),
    Finding(
        statement="The mean latencies of weight 3 on the strong server, least connections and weighted least "
        "connections are practically the same.",
        where="§4.6.1.2, table 16, figure 8",
        why="by Little's law the mean of 250 users who wait is 250 over the throughput, and that is nearly "
        "the same; but a cell of 8 s sees hardly two answers of a user at the weak server, where weight "
        "3 on the strong one lets the queue grow",
        checks=(alike("mean_ms", ("WRR-srv1", "LC", "WLC"), 250),),
        beside=(beside("mean_ms", "lowest", ("WRR-srv1", "LC", "WLC"), 250),),
    ),
    Finding(
        statement="Round robin's median latency is like that of least connections, at half the throughput.",
        where="§4.6, tables 15 and 16",
        checks=(alike("p50_ms", ("RR", "LC", "WLC"), 250), ratio("requests_per_s", "RR", "LC", 250)),
    ),
    Finding(
        statement="The minimum latency is below 1 s but with IP hash to the weak server, where it is 3 s.",
        where="§4.6.1.3, table 16, figure 9",
        checks=tuple(ratio("min_ms", "IPH-srv2", name, 250) for name in ("RR", "IPH-srv1", "LC")),
    ),
    Finding(
        statement="Least connections has by far the lowest maximum latency.",
        where="§4.6.1.4, table 16, figure 10",
        checks=(
            best("max_ms", "lowest", "LC", all_but("LC"), 250),
            ratio("max_ms", "LC", "WRR-srv1", 250),
            ratio("max_ms", "LC", "RR", 250),
        ),
        beside=(beside("max_ms", "lowest", ("LC",), 250),),
    ),
    Finding(
        statement="Least connections keeps the lowest maximum latency at 500 users.",
        where="§4.6.1.4, figure 10",
        checks=(best("max_ms", "lowest", "LC", all_but("LC"), 500),),
        beside=(beside("max_ms", "lowest", ("LC",), 500),),
        note="the text says so; by tables 2 and 12 round robin's is lower at 500 users.",
    ),
    Finding(
        statement="The maximum latency rises with the number of users.",
        where="§4.6.1.4, figure 10",
        checks=tuple(
            ratio("max_ms", name, name, 250, against_users=10) for name in ("RR", "WRR-srv1", "LC", "WLC")
        ),
    ),
    Finding(
        statement="At 10 users the algorithms are all much alike.",
        where="§4.2.1, tables 1 to 14",
        checks=(alike("requests_per_s", EVERY, 10), alike("p50_ms", EVERY, 10)),
        beside=(beside("p50_ms", "lowest", EVERY, 10),),
    ),
    Finding(
        statement="At 500 users more than half of the requests fail; at 250 hardly any.",
        where="§4.6.2, tables 1 and 15, figure 11",
        checks=(
            fails("nginx-rr-768", "RR with 768 connections", 250, published="0"),
            fails("nginx-rr-768", "RR with 768 connections", 500, published=_FAILED_RR, at_least=0.5),
        ),
        note="judged with `nginx-rr-768`, which has what Debian's and Ubuntu's packages set; how large a "
        "part fails hangs on how quickly a client that was refused asks again.",
    ),
    Finding(
        statement="The failures at 500 users come at once (minimum latency 0.84 ms).",
        where="tables 2, 4, 6, 8, 10, 12, 14",
        checks=(
            fails("nginx-rr-768", "RR with 768 connections", 500, published=_FAILED_RR,
                   at_least=HARDLY_ANY),
            fails("nginx-rr", "RR with enough connections", 500, published="none, if it is the limit"),
        ),
        note="the study does not explain them. Our explanation is nginx's `worker_connections`, of which "
        "a proxied request takes two: 250 users fit into 768 and 500 do not. It holds when round robin fails "
        "with 768 and does not with enough. Latencies here are of requests that succeeded, so the minimum "
        "itself cannot be compared.",
    ),
    Finding(
        statement="At 500 users least connections fails for one of the smallest parts of its requests, IP "
        "hash to the weak server for nearly all.",
        where="§4.3.2 and §4.4, tables 9 and 11",
        cannot=NO_SUCH_LIMIT,
    ),
    Finding(
        statement="Of the failures at 500 users, algorithms that use both servers have the fewest, and IP "
        "hash has the most.",
        where="§4.6.2, tables 1 to 13, figure 11",
        cannot=NO_SUCH_LIMIT,
        note="the text says that IP hash to server 2 has nearly 500 failures/s; by tables 7 and 9 it is "
        "IP hash to server 1.",
    ),
)  # fmt: skip

SOURCE = Source(
    title="The locust study",
    what="Tamanaha, Domingues, Bittencourt: *Algoritmos para Balanceamento de Carga no NGINX*, IC-PFG-21-49, "
    "2021: nginx in front of two servers of which one had spent its CPU credits; a product of two 20 × 20 "
    "matrices; locust, three times 60 s.",
    mirrored="scenario `report`",
    names={
        "RR": "nginx-rr",
        "WRR-srv1": "nginx-wrr",
        "WRR-srv2": "nginx-wrr-reversed",
        "IPH-srv1, IPH-srv2": "the faster and the slower of nginx-ip_hash and nginx-ip_hash-backwards",
        "LC": "nginx-least_conn",
        "WLC": "nginx-wleast_conn",
        "Steelyard": DEFAULT,
    },
    findings=FINDINGS,
)
