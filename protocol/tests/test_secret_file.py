"""The file of the shared key."""

from pathlib import Path

import pytest
from steelyard_protocol import secret_file
from steelyard_protocol.secret_file import SecretFileError


def _file(folder: Path, secret: bytes, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(secret)
    path.chmod(mode)
    return path


def test_a_key_is_read_without_its_newline(tmp_path: Path) -> None:
    assert secret_file.read_key(_file(tmp_path, b"k" * 32 + b"\n")) == b"k" * 32


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (b"", "a key has at least 16 bytes, and this one has 0"),
        (b"secretsecret\n", "a key has at least 16 bytes, and this one has 12"),
        (b"secret" * 1000, "it has more than 4096 bytes, too many for a key"),
    ],
)
def test_a_file_without_a_key_is_named_and_not_shown(tmp_path: Path, secret: bytes, message: str) -> None:
    path = _file(tmp_path, secret)
    with pytest.raises(SecretFileError) as raised:
        secret_file.read_key(path)
    assert str(raised.value).startswith(f"the key file {path}: {message}")
    assert "secret" not in str(raised.value)


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SecretFileError, match=r"the key file .* cannot be read: Is a directory"):
        secret_file.read_key(tmp_path)
    with pytest.raises(SecretFileError, match=r"the key file .* cannot be read: No such file"):
        secret_file.read_key(tmp_path / "nowhere")
    with pytest.raises(SecretFileError, match=r"the key file "):
        secret_file.read_key(Path("a\0b"))


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o400, False), (0o600, False), (0o640, False), (0o644, True), (0o604, True)]
)
def test_a_file_that_everybody_can_read_is_warned_of(tmp_path: Path, mode: int, warned: bool) -> None:
    path = _file(tmp_path, b"k" * 32, mode)
    remedy = f"every user of this machine can read the key in {path}: chmod o-r {path}"
    assert list(secret_file.warnings([(path, "key")])) == ([remedy] if warned else [])


def test_a_key_comes_from_the_file_that_is_named_or_else_from_the_environment(tmp_path: Path) -> None:
    assert secret_file.key(_file(tmp_path, b"f" * 32), None) == b"f" * 32
    assert secret_file.key(None, b"e" * 32) == b"e" * 32
    assert secret_file.key(None, None) is None


def test_each_file_that_is_named_is_looked_at(tmp_path: Path) -> None:
    path = _file(tmp_path, b"k" * 32, 0o644)
    remedy = f"every user of this machine can read the token in {path}: chmod o-r {path}"
    assert list(secret_file.warnings([(None, "key"), (path, "token"), (tmp_path / "gone", "key")])) == [
        remedy
    ]


def test_a_file_that_has_gone_is_not_warned_of(tmp_path: Path) -> None:
    assert list(secret_file.warnings([(tmp_path / "nowhere", "key")])) == []
