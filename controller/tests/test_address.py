import pytest
from steelyard_controller.address import split


def test_takes_ipv4_and_bracketed_ipv6() -> None:
    assert split("10.0.0.11:80") == ("10.0.0.11", 80)
    assert split("[fd00::13]:8080") == ("fd00::13", 8080)


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("10.0.0.11", "has no port"),
        ("10.0.0.11:0", r"1\.\.65535"),
        ("10.0.0.11:٣", r"1\.\.65535"),
        ("web-1:80", "names are not resolved"),
        ("fd00::13:80", "in brackets"),
        ("", "has no port"),
    ],
)
def test_says_what_is_wrong_with_an_address(address: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        split(address)
