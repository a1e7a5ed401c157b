"""The reports of HAProxy 2.6, in short: the columns that matter."""

from collections.abc import Mapping

COLUMNS = [
    "pxname",
    "svname",
    "scur",
    "stot",
    "econ",
    "eresp",
    "wretr",
    "wredis",
    "status",
    "weight",
    "lbtot",
    "type",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
    "hrsp_other",
    "ctime",
    "rtime",
    "ttime",
    "agent_status",
    "addr",
    "mode",
    "uweight",
    "srv_abrt",
]

INFO = "Name: HAProxy\nVersion: 2.6.12\nPid: {pid}\nUptime: 0d 0h01m07s\nUptime_sec: {uptime_s}\nTainted: 0"


def info(pid: int = 100, uptime_s: int = 67) -> str:
    """Return `show info`."""
    return INFO.format(pid=pid, uptime_s=uptime_s)


def stat(*rows: Mapping[str, object], backend: str = "web", http: bool = True) -> str:
    """Return `show stat` of a backend; each row has its `name`, and its columns other than 0."""
    known: dict[str, object] = {
        "pxname": backend, "type": 2, "status": "UP", "agent_status": "", "addr": "", "weight": 100,
        "uweight": 100, "mode": "http" if http else "tcp",
    }  # fmt: skip
    lines = [f"# {','.join(COLUMNS)},"]
    for row in rows:
        told = known | {"svname": row["name"], **row}
        if not http:
            told = told | {column: "" for column in COLUMNS if column.startswith("hrsp")}
        lines.append(",".join(str(told.get(column, 0)) for column in COLUMNS) + ",")
    return "\n".join(lines)
