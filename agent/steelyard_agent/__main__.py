"""`steelyard-agent`: reads the settings, prints one sample, or runs the loop until a signal."""

if __name__ == "__main__":  # before the other imports, because ctrl-C may come during them
    from steelyard_agent.console_scripts import agent

    raise SystemExit(agent())


import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from pathlib import Path

from steelyard_protocol import completion, sample_record, secret_file
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError
from steelyard_protocol.signals import SignalWaiter

from steelyard_agent import evidence_table, running_agent, settings, wiring
from steelyard_agent.agent import Sampler
from steelyard_agent.evidence import Evidence
from steelyard_agent.flags import FLAGS
from steelyard_agent.loop import Wake, run
from steelyard_agent.pods import node_wiring
from steelyard_agent.pods.pod_list import UPSTREAM_LABEL
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.registration import controller_client, register_flags
from steelyard_agent.running_agent import RunningAgent
from steelyard_agent.settings import Settings
from steelyard_agent.wiring import LoadedSettings

STOP = (signal.SIGTERM, signal.SIGINT)
RELOAD = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()  # Windows has none


def main() -> int:
    """Run the agent; return its exit status.

    0; 1 if --once or --explain have nothing to sample; 2 for wrong settings.
    """
    completion.of_flags(FLAGS)
    try:
        loaded = _load()
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        running_agent.set_log_level(loaded.settings)
        one = loaded.settings.once or loaded.settings.explain
        return _print_one(loaded) if one else _run_until_signal(loaded)
    except (SettingsError, SecretFileError) as error:
        for line in str(error).splitlines():
            print(f"steelyard-agent: {line}", file=sys.stderr)
        return 2


def _load() -> LoadedSettings:
    chosen = settings.load(sys.argv[1:], os.environ, hostname=socket.gethostname(), read=Path.read_bytes)
    key = secret_file.key(chosen.key_file, chosen.key)
    token = None if chosen.register is None else chosen.register.token
    if chosen.register is not None and chosen.register.token_file is not None:
        token = secret_file.read(chosen.register.token_file, "token", register_flags.token)
    return LoadedSettings(settings=chosen, key=key, token=token)


def _run_until_signal(loaded: LoadedSettings) -> int:
    signals = SignalWaiter((*STOP, *RELOAD))
    running = RunningAgent(_load)
    agent = running.start(loaded)
    run(
        agent,
        clock=time.monotonic,
        wall_clock=time.time,
        wait=lambda timeout_s: _wake(signals.within(timeout_s)),
        reload=running.reload,
    )
    running.close()
    last = "; the pods go on" if loaded.settings.pods else ", after a last sample that says so"
    logging.getLogger("steelyard_agent").info("stopped by a signal%s", last)
    return 0


def _wake(received: int | None) -> Wake:
    if received is None:
        return Wake.DUE
    return Wake.RELOAD if received in RELOAD else Wake.STOP


def _print_one(loaded: LoadedSettings) -> int:
    """Print one sample, as JSON or with the sources of its figures."""
    if loaded.settings.pods is not None:
        return _print_pods(loaded.settings, loaded.settings.pods)
    chosen, signals = loaded.settings, SignalWaiter(STOP)
    reader = wiring.reader(chosen, extras=chosen.explain)
    indicators = wiring.indicator_reader(chosen)
    sampler = Sampler(reader.read, chosen.limits, indicators.evidence)
    indicators.read_all()
    sampler.step()
    if sampler.absent is not None or signals.within(chosen.interval_s) is not None:
        return 1
    indicators.read_all()
    taken = sampler.step()
    if taken is None:
        return 1
    if chosen.explain:
        further = (*indicators.rates(), *_register_evidence(loaded))
        print(evidence_table.render([reader.detection, *taken.evidence, *further]))
        return 0
    stream = RecordStream(
        upstream=chosen.upstream,
        peer=chosen.peer,
        scope=reader.scope,
        boot=secrets.token_hex(8),
        wall_clock=time.time,
    )
    sent, _ = stream.next(taken)
    print(json.dumps(json.loads(sample_record.encode(sent)), indent=2))
    return 0


def _print_pods(chosen: Settings, pods: PodsSettings) -> int:
    """Print one sample of each pod of the node."""
    signals, poll = SignalWaiter(STOP), node_wiring.pod_poll(pods)
    poll.step()
    if poll.fault is not None:
        return 1
    agent = node_wiring.node_agent(
        pods.node,
        poll,
        MemcachedWriter([]),
        limits=chosen.limits,
        interval_s=chosen.interval_s,
        key=None,
        extras=chosen.explain,
    )
    agent.tick()
    if not poll.pods:
        print(
            f"steelyard-agent: no pod on node {pods.node} runs with the label {UPSTREAM_LABEL}",
            file=sys.stderr,
        )
        return 1
    if signals.within(chosen.interval_s) is not None:
        return 1
    sent = agent.tick()
    if chosen.explain:
        tables = (
            f"{name}\n\n{evidence_table.render(made)}" for name, made in agent.evidence().items() if made
        )
        print("\n\n".join(tables))
    else:
        print(json.dumps([json.loads(sample_record.encode(one)) for one in sent], indent=2))
    return 0 if sent else 1


def _register_evidence(loaded: LoadedSettings) -> list[Evidence]:
    """Return how this server would be declared."""
    register = loaded.settings.register
    if register is None:
        return []
    try:
        source_ip = controller_client.source_ip(register.urls[0])
    except (OSError, UnicodeError):
        source_ip = register_flags.AUTO
    return [register.wanted.evidence(register.urls, source_ip, with_token=loaded.token is not None)]
