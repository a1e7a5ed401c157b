"""The attack on nginx: one case after the other, a random configuration and visits to it."""

import asyncio
import itertools
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.machine.programs import LUA, Programs

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.footprint import bad_lines
from steelyard_resilience.fuzz.nginx_cases import Answer, Asked, Case, a_case, unrest, wrong_servers
from steelyard_resilience.fuzz.nginx_peers import PATIENCE_S, serving, visited
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation

NAME, METHOD = "nginx-conf", "random nginx"

# A case takes seconds, in most of which nginx waits.
AT_ONCE = 8

# Seconds for some thirty cases, and how much longer than other targets it is tried.
LEAST_S, LONGER = 10.0, 10

MOST_VIOLATIONS = 5

PAGES = ("/steelyard/status", "/open")


def run(programs: Programs, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try cases for ten times so long, from that of the seed on; yield the tally. Raises SetupError."""
    if programs.modules[LUA] is None:
        raise SetupError("needs an nginx with Lua: run `make setup`")
    yield asyncio.run(_tally(programs, max(LEAST_S, LONGER * seconds), seed))


async def _tally(programs: Programs, seconds: float, seed: int) -> Tally:
    seeds, cases, deadline = itertools.count(seed), 0, time.monotonic() + seconds
    outcomes, violations = Counter[str](), list[Violation]()
    ports = free_ports(2 * AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="steelyard-fuzz-") as made:
        async with serving() as (servers, asked), asyncio.TaskGroup() as tasks:

            async def one_after_the_other(folder: Path, ports: tuple[int, int]) -> None:
                nonlocal cases
                while time.monotonic() < deadline and len(violations) < MOST_VIOLATIONS:
                    case = a_case(next(seeds), servers)
                    folder.mkdir()
                    broken, answers = await _tried(case, programs, folder, ports, asked[str(case.seed)])
                    cases += 1
                    outcomes.update(map(_outcome, answers))
                    if broken:
                        kept = [case.conf, *map(str, case.visits), (folder / "error.log").read_text()]
                        what, data = f"case {case.seed}: {'; '.join(broken[:5])}", "\n".join(kept).encode()
                        violations.append(Violation(what=what, input=data, seed=case.seed))
                    shutil.rmtree(folder)

            for at, own in enumerate(zip(ports[::2], ports[1::2], strict=True)):
                tasks.create_task(one_after_the_other(Path(made) / str(at), own))
    return Tally(
        target=NAME, method=METHOD, about="visits to an nginx of random configuration",
        tried=outcomes.total(), outcomes=dict(outcomes), violations=tuple(violations),
        notes=(f"{cases:,} configurations",),
    )  # fmt: skip


def _outcome(answer: Answer) -> str:
    code = answer.status
    return ACCEPTED if 0 < code < 300 else f"HTTP {code}" if code else "left before the answer"


async def _tried(
    case: Case, programs: Programs, folder: Path, ports: tuple[int, int], asked: Asked
) -> tuple[list[str], list[Answer]]:
    file, log, text, cookies = folder / "nginx.conf", folder / "error.log", case.conf, ["none=0"]
    modules = "".join(f"load_module {module};" for module in programs.modules[LUA] or ())
    values = {
        "MODULES": modules, "USER": "user root;" if os.geteuid() == 0 else "", "FOLDER": folder,
        "LUA": CHECKOUT / "openresty", "PORT": ports[0], "PORT2": ports[1],
    }  # fmt: skip
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    file.write_text(text)
    nginx = Process([programs.nginx, "-p", str(folder), "-c", str(file), "-e", str(log)], log)
    try:
        await asyncio.to_thread(nginx.wait_listening, ports[0])
        answers = await asyncio.gather(*(visited(visit, ports, cookies) for visit in case.visits))
        broken = wrong_servers(case, asked, answers) or await _unrest(ports[0], asked, answers)
        return broken or bad_lines(log), answers
    except ProgramError as error:
        return [str(error), *bad_lines(log)], []
    finally:
        await asyncio.to_thread(nginx.stop)


async def _unrest(port: int, asked: Asked, answers: list[Answer]) -> list[str]:
    """Return what is still not as it must be when patience ends."""
    stayed, deadline = all(answer.complete for answer in answers), time.monotonic() + PATIENCE_S
    while True:
        await asyncio.sleep(0.1)
        ask = [asyncio.to_thread(http_ask.ask, "127.0.0.1", port, path) for path in PAGES]
        status, opened = (json.loads(body) for _, body in await asyncio.gather(*ask))
        left = unrest(status, opened, asked, all_stayed=stayed)
        if not left or time.monotonic() > deadline:
            return left
