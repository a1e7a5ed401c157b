"""`steelyard-agent`: builds the parts from the settings and runs the loop until a signal."""

import json
import logging
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence

from steelyard_agent import key_file, record, settings, store
from steelyard_agent.agent import Agent, Reader, Sampler, run
from steelyard_agent.key_file import KeyFileError
from steelyard_agent.readings.host import HostReader
from steelyard_agent.readings.process import ProcessReader, Target
from steelyard_agent.settings import Settings, SettingsError
from steelyard_agent.store import Store

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Run the agent; return its exit status: 0, 1 (--once found nothing to sample) or 2 (a wrong setting)."""
    try:
        chosen = settings.load(sys.argv[1:], os.environ, hostname=socket.gethostname())
        key = chosen.key if chosen.key_file is None else key_file.read(chosen.key_file)
    except (SettingsError, KeyFileError) as error:
        print(f"steelyard-agent: {error}", file=sys.stderr)
        return 2
    # Blocked, they wait for sigtimedwait: no handler runs in the middle of a sample, none is missed.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    level = logging.DEBUG if chosen.verbose else logging.WARNING if chosen.once else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    sampler = Sampler(_reader(chosen), chosen.limits)
    return _once(chosen, sampler) if chosen.once else _forever(chosen, sampler, key)


def _reader(chosen: Settings) -> Reader:
    if chosen.scope == "host":
        return HostReader()
    return ProcessReader(
        Target(pid=chosen.pid, pid_file=chosen.pid_file), count_io=chosen.limits.io is not None
    )


def _once(chosen: Settings, sampler: Sampler) -> int:
    agent = _agent(chosen, sampler, (), None)
    agent.tick()
    if sampler.absent is not None or _signalled(chosen.interval_s):
        return 1
    taken = agent.tick()
    if taken is None:
        return 1
    print(json.dumps(json.loads(record.encode(taken)), indent=2))
    return 0


def _forever(chosen: Settings, sampler: Sampler, key: bytes | None) -> int:
    stores = [
        Store(
            address,
            ttl_s=store.ttl_s(chosen.interval_s),
            timeout_s=store.timeout_s(chosen.interval_s, len(chosen.memcached)),
            clock=time.monotonic,
            random=random.random,
        )
        for address in chosen.memcached
    ]
    where = ", ".join(f"{host}:{port}" for host, port in chosen.memcached)
    log = logging.getLogger("steelyard_agent")
    log.info(
        "sampling %s/%s (scope %s) every %g s, to Memcached at %s, %s",
        chosen.upstream, chosen.peer, chosen.scope, chosen.interval_s, where,
        "unsigned" if key is None else "signed",
    )  # fmt: skip
    unsafe = None if chosen.key_file is None else key_file.warning(chosen.key_file)
    if unsafe is not None:
        log.warning("%s", unsafe)
    agent = _agent(chosen, sampler, stores, key)
    run(agent, interval_s=chosen.interval_s, clock=time.monotonic, wait=_signalled)
    log.info("stopped by a signal, after a last sample that says so")
    return 0


def _agent(chosen: Settings, sampler: Sampler, stores: Sequence[Store], key: bytes | None) -> Agent:
    return Agent(
        sampler,
        stores,
        upstream=chosen.upstream,
        peer=chosen.peer,
        scope=chosen.scope,
        boot=secrets.token_hex(8),
        interval_s=chosen.interval_s,
        wall_clock=time.time,
        key=key,
    )


def _signalled(timeout_s: float) -> bool:
    return signal.sigtimedwait(SIGNALS, timeout_s) is not None


if __name__ == "__main__":
    sys.exit(main())
