"""`steelyard-agent`: reads the settings, prints one sample, or runs the loop until a signal."""

import json
import logging
import os
import random
import secrets
import signal
import socket
import sys
import time
from pathlib import Path

from steelyard_agent import (
    exchange,
    explain,
    key_file,
    record,
    register_values,
    secret_file,
    service,
    settings,
    store,
)
from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.evidence import Evidence
from steelyard_agent.loop import Wake, run
from steelyard_agent.pool import Pool
from steelyard_agent.secret_file import SecretFileError
from steelyard_agent.service import Chosen, Service
from steelyard_agent.settings import SettingsError

STOP = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Run the agent; return its exit status.

    0; 1 when --once or --explain found nothing to sample; 2 when a setting is wrong.
    """
    try:
        chosen = _choose()
        # Blocked, they wait for sigtimedwait: no handler runs in the middle of a sample, none is missed.
        # Before the first thread is made, because threads inherit it.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP, signal.SIGHUP))
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        service.set_log_level(chosen.settings)
        one = chosen.settings.once or chosen.settings.explain
        return _one(chosen) if one else _forever(chosen)
    except (SettingsError, SecretFileError) as error:
        print(f"steelyard-agent: {error}", file=sys.stderr)
        return 2


def _choose() -> Chosen:
    found = settings.load(sys.argv[1:], os.environ, hostname=socket.gethostname(), read=Path.read_bytes)
    key = found.key if found.key_file is None else key_file.read(found.key_file)
    token = None if found.register is None else found.register.token
    if found.register is not None and found.register.token_file is not None:
        token = secret_file.read(found.register.token_file, "token", register_values.token)
    return Chosen(settings=found, key=key, token=token)


def _forever(chosen: Chosen) -> int:
    running = Service(_choose)
    agent = running.start(chosen)
    run(agent, clock=time.monotonic, random=random.random, wait=_wait, reload=running.reload)
    running.close()
    logging.getLogger("steelyard_agent").info("stopped by a signal, after a last sample that says so")
    return 0


def _wait(timeout_s: float) -> Wake:
    came = _signal_within(timeout_s, (*STOP, signal.SIGHUP))
    if came is None:
        return Wake.DUE
    return Wake.RELOAD if came == signal.SIGHUP else Wake.STOP


def _signal_within(timeout_s: float, wanted: tuple[signal.Signals, ...]) -> int | None:
    came = signal.sigtimedwait(wanted, timeout_s)
    if came is not None and came.si_signo not in wanted:
        # A process that was stopped (SIGSTOP, a debugger) and goes on when its wait is over gets from
        # Python 3.11 a siginfo that nobody has filled in. Whether a signal came meanwhile is asked again.
        came = signal.sigtimedwait(wanted, 0)
    return None if came is None else came.si_signo


def _one(everything: Chosen) -> int:
    """Print one sample, as what would be sent or as what it is made of."""
    chosen = everything.settings
    made = service.reader(chosen, extras=chosen.explain)
    sampler = Sampler(made.read, chosen.limits)
    agent = Agent(
        sampler,
        Pool([]),
        upstream=chosen.upstream,
        peer=chosen.peer,
        scope=made.scope,
        boot=secrets.token_hex(8),
        interval_s=chosen.interval_s,
        stale_s=store.ttl_s(chosen.interval_s),
        wall_clock=time.time,
        clock=time.monotonic,
    )
    agent.tick()
    if sampler.absent is not None or _signal_within(chosen.interval_s, STOP) is not None:
        return 1
    sent = agent.tick()
    if sent is None:
        return 1
    if chosen.explain:
        print(explain.render([made.detection, *agent.last.evidence, *_registered(everything)]))
    else:
        print(json.dumps(json.loads(record.encode(sent)), indent=2))
    return 0


def _registered(chosen: Chosen) -> list[Evidence]:
    """Return how this server would be declared."""
    wanted, registering = service.registration(chosen.settings), chosen.settings.register
    if wanted is None or registering is None:
        return []
    try:
        source_ip = exchange.source_ip(registering.urls[0])
    except (OSError, UnicodeError):
        source_ip = register_values.AUTO
    return [wanted.evidence(registering.urls, source_ip, with_token=chosen.token is not None)]


if __name__ == "__main__":
    sys.exit(main())
