"""Which Lua module may require which: the walls between core, io and phase, as import-linter has for Python.

luacheck keeps `ngx`, files and the clock out of the pure modules (.luacheckrc).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

LIBRARIES = (
    Path(__file__).parents[1] / "steelyard" / "lib",
    Path(__file__).parents[1] / "lua-resty-vnswrr" / "lib",
)

# Not the one in the text of a message.
REQUIRE = re.compile(r"""(?:=|\(|\breturn|^)\s*require\s*\(?\s*["']([\w.]+)["']""")

# LuaJIT's own libraries, and cjson: no I/O.
PURE_LIBRARIES = ("bit", "cjson.safe", "ffi", "string.buffer", "table.new")

# lua-resty-core's.
NGX_LIBRARIES = ("ngx.balancer", "ngx.resp", "ngx.semaphore", "resty.core.base")

# A package, and what its modules may require beside each other. The longest name that fits a module counts.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "resty.vnswrr": PURE_LIBRARIES,
    "steelyard.core.pickers": (*PURE_LIBRARIES, "resty.vnswrr", "steelyard.core.hash_ring"),
    "steelyard.core": (*PURE_LIBRARIES, "resty.vnswrr", "steelyard.core.pickers"),
    "steelyard.io": (*PURE_LIBRARIES, *NGX_LIBRARIES, "resty.vnswrr", "steelyard.core"),
    "steelyard.phase": (*PURE_LIBRARIES, *NGX_LIBRARIES, "resty.vnswrr", "steelyard.core", "steelyard.io"),
    "steelyard": ("steelyard.phase", "steelyard.core"),
}

# Within a package, a module knows those of lower rows alone. A module that is in no row is a leaf: it may
# require none of the package, and all of the package may require it.
ROWS: Mapping[str, tuple[str, ...]] = {
    "steelyard.io": (
        "fetch list_fetch ejection in_flight_loop failure_exchange health_checker traffic_reporter",
        "controller_source",
        "table_sources",
        "saved_tables",
        "table_acceptance",
        "chunk_reader connections http_client memcached_client peer_health shared_counters job_lock",
        "signature backoff timers dict_snapshot table_store leaving_counts",
        "shared_dict",
    ),
    "steelyard.phase": (
        "servers stream_pages response request_log balance stream_session",
        "status_pages limit server_reports retries",
        "request",
        "worker",
        "upstream_sync jobs",
        "snapshot",
        "listed_upstreams leaving_workers session_closer",
    ),
    "steelyard": ("", "stream inference"),
}


def requires(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield each module's name with the name of each module that it requires."""
    for folder in folders:
        for path in sorted(folder.rglob("*.lua")):
            module = ".".join(path.relative_to(folder).with_suffix("").parts)
            for line in path.read_text().splitlines():
                code = line.partition("--")[0]
                for required in REQUIRE.findall(code):
                    yield module, required


def is_in(module: str, package: str) -> bool:
    """Tell whether a module is the package itself or in it."""
    return f"{module}.".startswith(f"{package}.")


def package_of(module: str) -> str | None:
    """Return the innermost package that has a module."""
    return max((package for package in PACKAGES if is_in(module, package)), key=len, default=None)


def place_of(module: str, package: str) -> int:
    """Return the number of a module's row, from the top; that of a leaf is below all."""
    rows = ROWS.get(package, ())
    name = module.removeprefix(package).removeprefix(".")
    return next((place for place, row in enumerate(rows) if name in row.split()), len(rows))


def wall_between(module: str, required: str) -> str | None:
    """Return why a module may not require another one; None: it may."""
    package, other = package_of(module), package_of(required)
    if package is None:
        return f"{module} is in no package that this test knows"
    if package != other:
        allowed = PACKAGES[package]
        # "steelyard.core" does not open its pickers: they are a package of their own.
        if required in allowed or other in allowed:
            return None
        return f"{module} may not require {required}: {package} knows {', '.join(allowed)} alone"
    if package in ROWS and not place_of(module, package) < place_of(required, package):
        return f"{module} may not require {required}: it is in no lower row of {package}"
    return None


def test_no_module_requires_one_behind_a_wall() -> None:
    found = list(requires(LIBRARIES))
    assert len(found) > 200
    assert [wall for module, required in found if (wall := wall_between(module, required))] == []


def test_every_row_names_modules_that_are_there() -> None:
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for folder in LIBRARIES
        for path in folder.rglob("*.lua")
    }
    named = {f"{package}.{name}" for package, rows in ROWS.items() for row in rows for name in row.split()}
    assert named <= modules


def test_a_forbidden_require_is_found(tmp_path: Path) -> None:
    core = tmp_path / "steelyard" / "core"
    core.mkdir(parents=True)
    (core / "ladder.lua").write_text(
        'local bit = require "bit" -- no require "steelyard.phase.limit" in a comment\n'
        'local clock = require("steelyard.io.clock")\n'
    )
    found = [wall_between(*each) for each in requires([tmp_path])]
    assert found[0] is None
    assert found[1] is not None
    assert found[1].startswith("steelyard.core.ladder may not require steelyard.io.clock")
    assert len(found) == 2


def test_walls_of_each_package() -> None:
    forbidden = [
        ("resty.vnswrr.swrr", "steelyard.core.wire"),
        ("steelyard.core.pickers.hcl", "steelyard.core.upstream"),
        ("steelyard.core.zones", "steelyard.phase.worker"),
        ("steelyard.core.zones", "resty.core.base"),
        ("steelyard.io.fetch", "steelyard.phase.worker"),
        ("steelyard.io.signature", "steelyard.io.fetch"),
        ("steelyard.io.clock", "steelyard.io.timers"),
        ("steelyard.phase.upstream_sync", "steelyard.phase.worker"),
        ("steelyard.phase.worker", "steelyard.phase.balance"),
        ("steelyard.phase.limit", "steelyard.phase.status_pages"),
        ("steelyard.stream", "steelyard.io.fetch"),
        ("steelyard.inference", "steelyard.stream"),
    ]
    assert [each for each in forbidden if wall_between(*each) is None] == []
