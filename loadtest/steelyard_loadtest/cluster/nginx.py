"""The files for a cluster's nginx, from one set of templates, and its controller's.

Pure but for reading the templates, which are part of the code.

    http.conf          the common part of every nginx in the lab; the others extend it
    steelyard.conf     an nginx that balances by Steelyard
    stream.conf        the same for TCP connections
    answering.conf     servers that answer at once

`rig.render` writes native.conf, haproxy.cfg and envoy.yaml for a trial.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from steelyard_loadtest.cluster.parts import UPSTREAM
from steelyard_loadtest.templates import render_file

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nginx:
    """Settings of an nginx besides its servers.

    listen        an address with its parameters
    files         worker_rlimit_nofile
    user          as root, a user who may read the checkout and write the folder; both may be in a private
                  home
    modules       modules to load
    environment   names that workers may see
    directives    more of the http block, without semicolons
    """

    folder: Path
    log: Path
    listen: str = ""
    log_level: str = "error"
    workers: int = 1
    connections: int = 16_384
    files: int | None = None
    user: str | None = None
    modules: Sequence[str] = ()
    environment: Iterable[str] = ()
    directives: Sequence[str] = ()

    @property
    def temporary(self) -> Path:
        """Return the folder of its temporary files; nginx creates the files but not the folder."""
        return self.folder / "nginx-temp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steelyard:
    """Additional settings of an nginx that balances by Steelyard.

    options        of init_worker
    secrets        options whose values are in a file
    blocks         the upstream blocks from `steelyard-upstream`; by default one with a pool of `pool`
                   connections
    shards         whether the blocks are a sharded pool
    all_pages      the header, the failure page and the metrics in addition to /steelyard/status
    equal_servers  addresses behind /equal/, in nginx's own round robin
    backend        the path at which it answers "ok" itself
    """

    lua_dir: Path
    options: Mapping[str, object]
    secrets: Mapping[str, Path] = field(default_factory=dict)
    upstream: str = UPSTREAM
    blocks: str = ""
    pool: int = 64
    shards: bool = False
    all_pages: bool = True
    jit: bool = True
    memory: str = "10m"
    equal_servers: Sequence[str] = ()
    backend: str = ""


def steelyard(nginx: Nginx, ours: Steelyard, *, title: str) -> str:
    """Return the nginx.conf of an nginx that balances by Steelyard; title: its first line."""
    values = {name: getattr(ours, name) for name in ours.__dataclass_fields__}
    return render_file(TEMPLATES / "steelyard.conf", {"nginx": nginx, "title": title, **values})


def steelyard_stream(nginx: Nginx, lua_dir: Path, options: Mapping[str, object]) -> str:
    """Return the nginx.conf for TCP connections balanced by Steelyard; options: of init_worker."""
    values = {"nginx": nginx, "lua_dir": lua_dir, "options": options, "upstream": UPSTREAM}
    return render_file(TEMPLATES / "stream.conf", values)


def controller(
    peers: Iterable[Mapping[str, object]],
    *,
    law: str = "steelyard",
    picker: str = "vnswrr2",
    load_balancers: Sequence[str] = ("edge-1",),
    upstream: str = UPSTREAM,
    indicators: Mapping[str, Mapping[str, float]] | None = None,
    max_conns: int | None = None,
) -> str:
    """Return a controller's YAML file, as in docs/reference/configuration.md.

    peers: each in the API's form. indicators: all that count; by default the four. max_conns: of a server,
    over all load balancers.
    """
    declared: dict[str, object] = {"law": law, "picker": picker, "load_balancers": list(load_balancers)}
    declared |= {"peers": list(peers)} | ({"indicators": indicators} if indicators else {})
    declared |= {"max_conns": max_conns} if max_conns else {}
    return yaml.safe_dump({"upstreams": {upstream: declared}}, sort_keys=False)
