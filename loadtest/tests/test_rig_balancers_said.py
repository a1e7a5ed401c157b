"""What HAProxy says of its servers."""

import pytest
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.rig.haproxy_stat import Row, servers

STATS = """\
# pxname,svname,status,weight,agent_status,
lab,FRONTEND,OPEN,,,
web,server-1,UP,62,L7OK,
web,server-2,no check,1,,
web,BACKEND,UP,63,,
other,server-3,MAINT,1,,
"""


def test_haproxy_s_servers_are_read_from_its_statistics_by_name() -> None:
    assert servers(STATS, "web") == {
        "server-1": Row(status="UP", weight=62, agent_status="L7OK"),
        "server-2": Row(status="no check", weight=1, agent_status=""),
    }


@pytest.mark.parametrize(
    "said", ["Permission denied", "# pxname,svname\nweb,server-1", STATS.replace("62", "?")]
)
def test_statistics_that_cannot_be_read_say_so(said: str) -> None:
    with pytest.raises(UnreadableError, match="show stat"):
        servers(said, "web")
