"""Servers that answer at once: one nginx, for measuring a proxy's own cost (I/O)."""

import os
from collections.abc import Collection

from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.network import raise_files
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.templates import render_file

ANSWERING = "Servers that answer at once: a listener on each port for every address of 127/8."


def start_answering(place: Place, cpus: Collection[int]) -> Process:
    """Start an nginx that answers at once on each port, at every address of 127/8; it need not answer yet."""
    folder = place.folder / "static-servers"
    settings = nginx.Nginx(
        folder=folder,
        log=folder / "nginx.log",
        log_level="warn",
        workers=max(1, len(cpus) // 2),
        files=raise_files(),
        # As root its workers would become a user who may not read the folder.
        user="root" if os.geteuid() == 0 else None,
        # The balancer should be the side that closes an idle connection.
        directives=("keepalive_requests 1000000000", "keepalive_timeout 3700s"),
    )
    settings.temporary.mkdir(parents=True)
    listen = [f"0.0.0.0:{port} reuseport backlog=4096" for port in place.server_ports]
    values = {"nginx": settings, "listen": listen, "title": ANSWERING}
    text = render_file(nginx.TEMPLATES / "answering.conf", values)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    command = parts.nginx(0, folder, log=settings.log, program=place.programs.backend_nginx).command
    return Process(command, settings.log, cpus)
