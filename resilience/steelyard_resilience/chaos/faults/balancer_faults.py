"""A second nginx that dies, or loses Memcached, with requests open: both tell what is in flight (I/O)."""

import time
from functools import partial

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.find_programs import find

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import nginx_status
from steelyard_resilience.chaos.faults.nginx_faults import OPENED_EACH_S, begin, lost_of
from steelyard_resilience.stage.daemon import Daemon
from steelyard_resilience.stage.hosts import MEMCACHED, SECOND_LB, WEB_PORT
from steelyard_resilience.stage.layout import NGINX_LB
from steelyard_resilience.stage.stage import Stage

HOST = "server-3"
"""Where it runs, so that it can be cut off from Memcached alone."""

OPEN_MS = 2500
"""What is open is answered so late: within proxy_read_timeout."""

GHOST_S = 10.0
"""An epoch (core/in_flight_exchange.lua): what was left behind in it is forgotten then."""


def _second(stage: Stage) -> Daemon:
    """Start another nginx, as the first one is but for its name and files."""
    folder = stage.state_dir.parent
    text = (folder / "nginx.conf").read_text()
    for first, second in ((NGINX_LB, SECOND_LB), ("nginx.pid", "2.pid"), ("logs/nginx", "logs/nginx-2")):
        text = text.replace(first, second)
    (folder / "nginx-2.conf").write_text(text.replace(str(stage.state_dir), str(folder)))
    log = folder / "logs" / "nginx-2.log"
    part = parts.nginx(WEB_PORT, folder, log=log, program=find(None).nginx, config="nginx-2.conf")
    daemon = Daemon(part, stage.addresses[HOST], stage.on(HOST), log)
    daemon.start()
    return daemon


def _of_others(stage: Stage) -> int:
    """Return how many requests others have in flight, as the first one knows it."""
    return sum(peer["others_in_flight"] or 0 for peer in nginx_status(stage)["peers"])


@action
def lose_balancer(requests: int, *, cut: bool, stage: Stage) -> Lasting:
    """Kill the second one with so many requests open, or cut it off from Memcached; they are forgotten."""
    second, lost = _second(stage), 0
    try:
        silent = partial(http_ask.why_not_ok, stage.addresses[HOST], WEB_PORT, "/steelyard/status")
        wait_until(silent, within_s=GHOST_S)
        asked = []
        for _ in range(requests):
            asked.append(begin(stage, WEB_PORT, f"/sleep?ms={OPEN_MS}", host=HOST))
            time.sleep(OPENED_EACH_S)
        wait_until(
            lambda: None if _of_others(stage) >= requests / 2 else "nginx does not know of half of them",
            within_s=OPEN_MS / 1000,
        )
        if cut:
            stage.cut(HOST, MEMCACHED)
            lost = lost_of(asked)
        else:
            second.kill()
        wait_until(lambda: f"{left} still count" if (left := _of_others(stage)) else None, within_s=GHOST_S)
        yield lambda: f"{lost} of {requests} requests are lost" if lost else None
    finally:
        second.kill()
        stage.mend(HOST, MEMCACHED)
