#!/usr/bin/env bash
# asyncio.wait_for in Python 3.11 loses a cancellation that comes in the same turn as the answer.
#
# Versions:  Python 3.11.2 (Debian 12, 3.11.2-6+deb12u9); 3.12 has no such loss
# Expected:  Task.cancel() "arranges for a CancelledError exception to be thrown into the wrapped coroutine on the next
#            cycle of the event loop" (asyncio's reference). The task that waits ends, unless it catches the error.
# Seen:      if the awaited future has its result when cancel() is called, `await wait_for(future, 5)` returns the
#            result and the task goes on, in 100 of 100 cases. cancel() has returned True. `async with timeout(5)`
#            raises CancelledError in all of them. wait_for catches the error, and returns the result if there is one.
# Steelyard: awaits writes to gRPC streams within asyncio.timeout, so that a stream that is cancelled ends.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=3.11.2-6+deb12u9
apt-get download -qq -o APT::Sandbox::User=root "python3.11-minimal=$version" "libpython3.11-minimal=$version" \
  "libpython3.11-stdlib=$version"
for package in *.deb; do dpkg -x "$package" .; done

PYTHONHOME="$folder/usr" usr/bin/python3.11 -I - <<'PYTHON'
import asyncio
import sys

CASES = 100


async def with_wait_for(answer: asyncio.Future[None]) -> None:
    await asyncio.wait_for(answer, 5)


async def with_timeout(answer: asyncio.Future[None]) -> None:
    async with asyncio.timeout(5):
        await answer


async def is_lost(wait) -> bool:
    answer = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(wait(answer))
    await asyncio.sleep(0)  # the task waits now
    answer.set_result(None)
    assert task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


async def main() -> None:
    lost = {wait.__name__: sum([await is_lost(wait) for _ in range(CASES)]) for wait in (with_wait_for, with_timeout)}
    print(f"Python {sys.version.split()[0]}, lost cancellations of {CASES}: {lost}")
    assert lost == {"with_wait_for": CASES, "with_timeout": 0}


asyncio.run(main())
PYTHON
