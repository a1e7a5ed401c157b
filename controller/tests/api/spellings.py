"""Spellings of a path: plain ones, and every way to write one that a router, a proxy or a person may know."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from hypothesis import strategies as st

UPSTREAMS = ("web", "shop", "nowhere")

AFTER = (
    "%0A", "%0a", "%0D", "%0D%0A", "%0A%0A", "%00", "%09", "%0B", "%0C", "%1C", "%7F", "%C2%85", "%E2%80%A8",
    "%20", "/", "//", "/.", "/..", "/./", "/%2E", ";", ";x=1", "?", "?x=1", "?/", "#", "#x", "%23", "%3F",
    "%3B", "%2F", ".", "%2E", "%", "%zz", "%250A", "%25%30%41", "\\", "%5C", ".json", "%FF", "%C0%AF",
    "%EF%BC%8F", "%ED%A0%80", "&", "=", "*", "~", "@", ":80", "|",
)  # fmt: skip
BEFORE = (
    "/",
    "//",
    "/.",
    "/./",
    "/x/..",
    "/%2E%2E",
    "%2F",
    "%0A",
    "/%0A",
    "http://a",
    "http://a:80",
    "*",
    "a",
)
SLASHES = (
    "//",
    "/./",
    "/x/../",
    "%2F",
    "%2f",
    "%252F",
    "/%2E/",
    "\\",
    "%5C",
    "%C0%AF",
    "/%0A",
    "%0A/",
    ";/",
    "",
)


def plain_paths(template: str, upstreams: Sequence[str]) -> Iterator[str]:
    """Yield the plain paths of a route's template."""
    for upstream in upstreams if "{upstream}" in template else ("",):
        for peer in ("server-1", "server-9") if "{peer}" in template else ("",):
            yield template.format(upstream=upstream, peer=peer, build="0" * 16, name="main.js")


def fixed(path: str) -> Iterator[str]:
    """Yield one spelling of each kind."""
    yield from (path + after for after in AFTER)
    yield from (before + path for before in BEFORE)
    for slash in SLASHES:
        yield path.replace("/", slash)
        yield slash.join(path.rsplit("/", 1))
    yield from (path.upper(), path.title(), path[1:], path[:-1], path + path)
    yield "".join(f"%{ord(letter):02X}" for letter in path)
    yield "".join(f"%25{ord(letter):02x}" for letter in path)
    yield quote(path, safe="")
    # A name that begins or ends with something else.
    for part in {*path.split("/")} - {""}:
        for other in (
            f"{part}%0A",
            f"%0A{part}",
            f"{part}%00",
            f"{part}%20",
            f"{part};x",
            f"{part}%2F..",
            f"{part}/",
        ):
            yield path.replace(part, other)


@st.composite
def any_of(draw: st.DrawFn, path: str) -> str:
    """Return a spelling with up to four changes."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(path)))
        kind = draw(st.sampled_from(("insert", "encode", "twice", "slash", "case", "before", "after", "cut")))
        letter = path[at : at + 1]
        if kind == "insert":
            path = path[:at] + draw(st.sampled_from(AFTER)) + path[at:]
        elif kind == "slash":
            parts = path.split("/")
            cut = draw(st.integers(0, len(parts) - 1))
            path = "/".join(parts[:cut]) + draw(st.sampled_from(SLASHES)) + "/".join(parts[cut:])
        elif kind == "before":
            path = draw(st.sampled_from(BEFORE)) + path
        elif kind == "after":
            path += draw(st.sampled_from(AFTER))
        elif letter:
            changed = {
                "encode": f"%{ord(letter):02x}",
                "twice": f"%25{ord(letter):02X}",
                "case": letter.swapcase(),
                "cut": "",
            }
            path = path[:at] + changed[kind] + path[at + 1 :]
    return path
