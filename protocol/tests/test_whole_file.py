"""A file that is replaced in one step: the earlier one stays whole if the new one cannot be written."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from steelyard_protocol import whole_file


def test_the_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "saved.yaml"
    whole_file.write(file, b"first")
    file.chmod(0o640)
    whole_file.write(file, b"second")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"second", 0o640)
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"first")
    link.symlink_to(target)
    whole_file.write(link, b"second")
    assert link.is_symlink()
    assert target.read_bytes() == b"second"


def test_a_device_is_written_to() -> None:
    whole_file.write(Path("/dev/null"), b"text")
    with pytest.raises(OSError, match="No space left"):
        whole_file.write(Path("/dev/full"), b"text")


def test_where_no_more_bytes_fit_the_earlier_file_is_whole_and_nothing_is_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    file.write_bytes(b"e" * 1000)
    # The system refuses the second half of the write, as on a full disk.
    code = "import sys; from steelyard_protocol import whole_file as w; from pathlib import Path\n"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}w.write(Path(sys.argv[1]), b'n' * 9000)", str(file)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "File too large" in ran.stderr
    assert file.read_bytes() == b"e" * 1000
    assert list(tmp_path.iterdir()) == [file]


def test_a_block_that_raises_leaves_the_earlier_file(tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    file.write_bytes(b"earlier")
    names = []

    def interrupted() -> None:
        with whole_file.replacing(file) as fresh:
            names.append(fresh.suffix)
            fresh.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names == [".png"]
    assert file.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [file]
