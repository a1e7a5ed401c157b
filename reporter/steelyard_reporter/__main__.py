"""`steelyard-reporter`: reads the settings, prints one report, or runs the loop until a signal."""

if __name__ == "__main__":  # before the other imports, because ctrl-C may come during them
    from steelyard_reporter.console_scripts import reporter

    raise SystemExit(reporter())


import json
import logging
import os
import secrets
import signal
import socket
import sys
import time

from steelyard_protocol import (
    completion,
    derived_keys,
    memcached_writer,
    peer_address,
    secret_file,
    traffic_report,
)
from steelyard_protocol.memcached_client import MemcachedClient
from steelyard_protocol.memcached_writer import MemcachedServer, MemcachedWriter
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError
from steelyard_protocol.signals import SignalWaiter

from steelyard_reporter import settings
from steelyard_reporter.loop import run
from steelyard_reporter.newest_tables import Tables
from steelyard_reporter.reporter import Reporter
from steelyard_reporter.settings import Settings

log = logging.getLogger("steelyard_reporter")

STOP = (signal.SIGTERM, signal.SIGINT)

# Ten of the controller's ticks: it judges freshness itself, so the key only has to outlast that.
TTL_S = 10


def main() -> int:
    """Run the reporter; return its exit status: 0; 1 if --once has no report; 2 for wrong settings."""
    completion.of_flags(settings.FLAGS)
    try:
        chosen = settings.load(sys.argv[1:], os.environ, hostname=socket.gethostname())
        key = secret_file.key(chosen.key_file, chosen.key)
        keys = None if key is None else derived_keys.load_balancer_keys(key)
    except (SettingsError, SecretFileError, ValueError) as error:
        for line in str(error).splitlines():
            print(f"steelyard-reporter: {line}", file=sys.stderr)
        return 2
    signals = SignalWaiter(STOP)
    level = logging.WARNING if chosen.once else logging.DEBUG if chosen.verbose else logging.INFO
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=level)
    put_s = memcached_writer.put_s(chosen.interval_s, len(chosen.memcached))
    clients = [MemcachedClient(address, timeout_s=put_s) for address in chosen.memcached]
    servers = [] if chosen.once else [MemcachedServer(client, ttl_s=TTL_S) for client in clients]
    pool = MemcachedWriter(servers, what="traffic reports")
    reporter = Reporter(
        chosen,
        pool=pool,
        tables=Tables(
            {client.name: client.get_many for client in clients},
            list(chosen.upstreams),
            keys=() if keys is None else keys.tables,
            wall_clock=time.time,
        ),
        key=None if keys is None else keys.reports,
        boot=secrets.token_hex(8),
        clock=time.monotonic,
        wall_clock=time.time,
    )
    if chosen.once:
        return _print_one(reporter, chosen, signals)
    _announce(chosen, signed=keys is not None)
    run(
        chosen.lb,
        chosen.interval_s,
        report=reporter.report,
        follow=reporter.follow,
        clock=time.monotonic,
        wall_clock=time.time,
        wait=lambda timeout_s: signals.within(timeout_s) is not None,
    )
    for client in clients:
        client.close()
    log.info("stopped by a signal")
    return 0


def _print_one(reporter: Reporter, chosen: Settings, signals: SignalWaiter) -> int:
    """Print the reports of one interval, as they would be sent."""
    reporter.follow()
    reporter.report()
    if signals.within(chosen.interval_s) is not None:
        return 1
    made = reporter.report()
    for report in made:
        print(json.dumps(json.loads(traffic_report.encode(report)), indent=2))
    return 0 if made else 1


def _announce(chosen: Settings, *, signed: bool) -> None:
    log.info(
        "reporting %s of %s as %s every %g s, to Memcached at %s, %s; weights %s",
        ", ".join(chosen.upstreams),
        ", ".join(
            str(each) if not isinstance(each, tuple) else peer_address.join(*each) for each in chosen.sockets
        ),
        chosen.lb,
        chosen.interval_s,
        ", ".join(peer_address.join(*address) for address in chosen.memcached),
        "signed" if signed else "unsigned",
        "are set here" if chosen.set_weights else "are left to agent-check",
    )
    for unsafe in secret_file.warnings([(chosen.key_file, "key")]):
        log.warning("%s", unsafe)
