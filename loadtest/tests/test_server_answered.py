"""The count of answers in a file, and what is counted."""

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send
from steelyard_loadtest.server.answered import COUNT_BYTES, Answered, Count
from steelyard_loadtest.server.load_report import LoadReport


async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("no answer")


def ask(app: Answered, path: str) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "path": path}, receive, send))
    return sent


def test_the_file_holds_the_number_in_eight_little_endian_bytes(tmp_path: Path) -> None:
    file = tmp_path / "count"
    count = Count(file)
    assert file.read_bytes() == bytes(COUNT_BYTES)
    for _ in range(300):
        count.add()
    assert int.from_bytes(file.read_bytes(), "little") == count.value() == 300


def test_a_new_count_begins_at_0_and_leaves_the_old_one_to_who_still_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "count"
    Count(file).add()
    with file.open("rb") as old:
        assert Count(file).value() == 0
        assert file.read_bytes() == bytes(COUNT_BYTES)
        assert int.from_bytes(old.read(), "little") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


def test_a_count_without_a_file_counts() -> None:
    count = Count(None)
    count.add()
    assert count.value() == 1


@pytest.mark.parametrize(
    ("path", "counted"),
    [("/", 1), ("/io", 1), ("/bytes", 1), ("/sleep", 1), ("/healthz", 0), ("/burn", 0), ("/other", 0)],
)
def test_what_a_load_asks_for_is_counted(path: str, counted: int) -> None:
    count = Count(None)
    assert ask(Answered(application, count, None), path)[0]["status"] == 200
    assert count.value() == counted


def test_a_request_without_an_answer_is_not_counted() -> None:
    count = Count(None)
    with pytest.raises(RuntimeError):
        ask(Answered(broken, count, None), "/")
    assert count.value() == 0


@pytest.mark.parametrize(("path", "carries"), [("/", True), ("/healthz", False)])
def test_an_answer_to_a_load_carries_the_report_beside_its_own_headers(
    tmp_path: Path, path: str, carries: bool
) -> None:
    file = tmp_path / "orca"
    file.write_text("TEXT cpu_utilization=0.5\n")
    count = Count(None)
    headers = ask(Answered(application, count, LoadReport(file, count.value)), path)[0]["headers"]
    report = [(b"endpoint-load-metrics", b"TEXT cpu_utilization=0.5")] if carries else []
    assert headers == [(b"x-own", b"1"), *report]
