"""The programs that can be measured: their paths and versions, and the missing ones.

Pure but for reading programs.toml, which is part of the code.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LUA = ("ndk_http_module", "ngx_http_lua_module")
STREAM_LUA = ("ngx_stream_module", "ngx_stream_lua_module")
FAIR = ("ngx_http_upstream_fair_module",)
VNSWRR = ("ngx_http_upstream_vnswrr_module",)

LUA_ALONE = "balancer_by_lua"
"""A method that is only two phases in Lua: the lower bound for any balancer written in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProgram:
    """A program beside nginx that can be measured; the fields are explained in programs.toml."""

    title: str
    command: str
    install: str
    version: Sequence[str] = ()
    config: str = ""


OTHERS = {
    name: OtherProgram(**row)
    for name, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
"""By an algorithm's program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Paths of programs (None: not here), the modules that nginx has to load for each set, and versions."""

    wrk: str | None
    nginx: str
    backend_nginx: str
    memcached: str | None
    others: Mapping[str, str] = field(default_factory=dict)
    """Those of OTHERS that are here."""
    modules: Mapping[tuple[str, ...], tuple[str, ...] | None]
    versions: Mapping[str, str]

    def why_missing(self, program: str, method: str) -> str | None:
        """Return why a balancer cannot be measured here and the remedy; None if it can.

        program and method: as in scenario.algorithms.Algorithm.
        """
        if method == LUA_ALONE or program == "steelyard":
            if self.modules[LUA] is None:
                return f"{self.nginx} has no Lua (on Debian: apt-get install libnginx-mod-http-lua)"
            if program != "steelyard" or self.memcached:
                return None
            return "needs memcached (apt-get install memcached)"
        if program in OTHERS:
            return None if program in self.others else f"not installed ({OTHERS[program].install})"
        if self.needs(program, method) is not None:
            return None
        if method == "fair;":
            package = "on Debian: apt-get install libnginx-mod-http-upstream-fair"
            return f"{self.nginx} has no ngx_http_upstream_fair_module ({package})"
        return f"{self.nginx} is not Tengine (--nginx PATH)"

    def path(self, program: str) -> str:
        """Return the file of one of OTHERS; its command's name if it is not here."""
        return self.others.get(program, OTHERS[program].command)

    def needs(self, program: str, method: str) -> tuple[str, ...] | None:
        """Return the modules that nginx must load for a balancer; None if it does not have them."""
        if program == "steelyard":
            return self.modules[LUA]
        return self.modules.get({"fair;": FAIR, "vnswrr;": VNSWRR, LUA_ALONE: LUA}.get(method, ()), ())
