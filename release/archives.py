"""Reproducible archives: the same files always give the same bytes."""

import gzip
import tarfile
from pathlib import Path


def tar_gz(folder: Path, archive: Path, *, prefix: str, made_at_s: int) -> None:
    """Write a folder's files below `prefix`, ordered by name, all owned by root and of one time.

    Modes are 0755 for executable files and 0644 for the rest.
    """
    with (
        archive.open("wb") as out,
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=made_at_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            entry = tarfile.TarInfo(f"{prefix}/{path.relative_to(folder).as_posix()}")
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            entry.mtime = made_at_s
            entry.uname = entry.gname = "root"
            with path.open("rb") as content:
                tar.addfile(entry, content)
