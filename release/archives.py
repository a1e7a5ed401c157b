"""Archives that are the same bytes whenever they are made of the same files."""

import gzip
import tarfile
from pathlib import Path


def tar_gz(folder: Path, archive: Path, *, prefix: str, made_at_s: int) -> None:
    """Write a folder's files as root's, all of one time, in the order of their names.

    In the archive they lie below `prefix`. Modes are 0755 for what may be
    executed and 0644 for the rest.
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
