"""A bare Debian 12: a package finds only its declared dependencies there."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

# apt starts no services inside.
_POLICY = "#!/bin/sh\nexit 101\n"


class CleanRoot:
    """A root file system by debootstrap; commands in it have this machine's /proc, /dev and network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sites = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"],
            check=True, capture_output=True, text=True,
        ).stdout.split("\n")  # fmt: skip
        mirror = next(site.split(" ")[0] for site in sites if site.endswith(" bookworm"))
        made = ["debootstrap", "--variant=minbase", "bookworm", str(folder), mirror]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        folder.chmod(0o755)  # nginx's workers are not root
        policy = folder / "usr/sbin/policy-rc.d"
        policy.write_text(_POLICY)
        policy.chmod(0o755)
        # This machine's mirror settings, for a proxy perhaps.
        for settings in Path("/etc/apt/apt.conf.d").iterdir():
            (folder / "etc/apt/apt.conf.d" / settings.name).write_bytes(settings.read_bytes())

    def command(self, *command: str) -> list[str]:
        """Return a command that runs another one inside; its mounts end with it."""
        mounts = " && ".join(f"mount --rbind /{each} {self.folder}/{each}" for each in ("proc", "sys", "dev"))
        inside = ["sh", "-c", f'{mounts} && exec chroot {self.folder} "$@"', "sh", *command]
        return ["unshare", "--mount", "--propagation", "private", *inside]

    def run(self, *command: str) -> str:
        """Run a command inside and return its output; if it fails, fail with the output."""
        done = subprocess.run(
            self.command("env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", *command),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-3000:]}"
        return done.stdout

    def install(self, packages: Sequence[Path | str]) -> str:
        """Install Debian packages, by name or file, with their dependencies."""
        named = []
        for package in packages:
            if isinstance(package, Path):
                (self.folder / "root" / package.name).write_bytes(package.read_bytes())
                named.append(f"/root/{package.name}")
            else:
                named.append(package)
        return self.run("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *named)
