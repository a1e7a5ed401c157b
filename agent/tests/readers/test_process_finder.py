"""The listener of a port: on a small /proc tree, and for real."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent import kernel_text
from steelyard_agent.readers.process import ProcessReader
from steelyard_agent.readers.process_finder import SEARCH_AGAIN_S, PortFinder, Target, TargetProcess
from steelyard_agent.scopes.process import ProcessReading
from steelyard_agent.scopes.reading import Absent

Plant = Callable[..., Path]

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:00000000 00000000     0        0 {inode} 1\n"
ANY, ANY6 = "00000000", "0" * 32


def listen(root: Path, port: int, inode: int, *, state: str = "0A", table: str = "tcp") -> None:
    file = root / "proc/net" / table
    file.parent.mkdir(parents=True, exist_ok=True)
    address = ANY if table == "tcp" else ANY6
    file.write_text(HEAD + LINE.format(address=address, port=port, state=state, inode=inode))


@pytest.fixture
def holder(plant_process: Plant) -> Plant:
    """Add a process with sockets to the tree."""

    def grow(pid: int, parent: int, *inodes: int, started: int = 500) -> Path:
        folder = plant_process(pid, parent, started=started)
        (folder / "fd").mkdir()
        (folder / "fd/0").symlink_to("/dev/null")
        for number, inode in enumerate(inodes, start=3):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        return folder

    return grow


def listener(root: Path, port: int = 80) -> int | str:
    answer = PortFinder(port, root, lambda: 0.0)()
    return answer.pid if isinstance(answer, TargetProcess) else answer.why


@pytest.mark.parametrize("table", ["tcp", "tcp6"])
def test_of_a_master_and_its_workers_the_master_is_found(empty_tree: Path, holder: Plant, table: str) -> None:
    listen(empty_tree, 80, 4711, table=table)
    holder(20, 1, 4711)
    holder(10, 20, 4711, 4712)
    holder(30, 1, 4712)
    assert listener(empty_tree) == 20


def test_of_several_that_share_a_port_the_oldest_is_found(empty_tree: Path, holder: Plant) -> None:
    listen(empty_tree, 80, 4711)
    holder(10, 1, 4711, started=900)
    holder(20, 1, 4711, started=600)
    assert listener(empty_tree) == 20


def test_systemd_which_holds_the_sockets_of_its_services_is_not_the_listener(
    empty_tree: Path, holder: Plant
) -> None:
    listen(empty_tree, 80, 4711)
    holder(1, 0, 4711)
    holder(20, 1, 4711)
    assert listener(empty_tree) == 20


def test_in_a_container_process_1_may_be_the_listener(empty_tree: Path, holder: Plant) -> None:
    listen(empty_tree, 80, 4711)
    holder(1, 0, 4711)
    assert listener(empty_tree) == 1


def test_a_port_that_is_only_connected_to_is_not_listened_on(empty_tree: Path, holder: Plant) -> None:
    listen(empty_tree, 80, 4711, state="01")
    holder(20, 1, 4711)
    assert listener(empty_tree) == "nothing listens on port 80"


def test_a_listener_of_another_user_is_named_as_such(empty_tree: Path) -> None:
    listen(empty_tree, 80, 4711)
    assert listener(empty_tree) == "the process with port 80 belongs to another user"


def test_a_new_listener_is_found_when_the_old_one_ends_or_after_the_bound(
    empty_tree: Path, holder: Plant
) -> None:
    listen(empty_tree, 80, 4711)
    holder(20, 1, 4711)
    now_s = [0.0]
    find = PortFinder(80, empty_tree, lambda: now_s[0])

    def pid() -> int | None:
        answer = find()
        return answer.pid if isinstance(answer, TargetProcess) else None

    assert pid() == 20
    (empty_tree / "proc/20/fd/3").unlink()  # a reload: the old process lives on without the port
    holder(30, 1, 4711)
    seen = []
    for now_s[0] in (1.0, SEARCH_AGAIN_S):
        seen.append(pid())
    assert seen == [20, 30]
    (empty_tree / "proc/30/stat").unlink()
    holder(40, 1, 4711)
    assert pid() == 40


def test_a_real_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reading = ProcessReader(Target(port=server.getsockname()[1]))()
    assert isinstance(reading, ProcessReading)
    assert os.getpid() in reading.processes


def test_a_real_port_that_is_closed_is_absence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ProcessReader(Target(port=port))() == Absent(f"nothing listens on port {port}")


@pytest.mark.parametrize("link", ["/dev/null", "pipe:[7]", "socket:[]", "socket:[x]", ""])
def test_what_is_no_socket_has_no_inode(link: str) -> None:
    assert kernel_text.parse_socket_link(link) is None
