"""Values that decoders get wrong: the edges of numbers, of strings, of nesting. Pure.

As texts of JSON, because some of them no JSON library would write.
"""

NUMBERS = (
    "0", "-0", "-0.0", "1", "-1", "1.0", "2.5", "1e2", "1E+2", "1e-7", "0.1", "1.", ".5", "01", "+1", "0x10",
    "NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "1e400", "-1e400", "1e308", "5e-324",
    "63", "64", "65", "65535", "65536", "1000000", "1000001", "2147483648", "4294967296",
    "9007199254740991", "9007199254740992", "9007199254740993", "9223372036854775808", "18446744073709551616",
    "1e15", "1.0000000000000001e15", "0.001", "0.0009999", "3600", "3600.0000001", "9" * 40, "9" * 400,
    "9" * 5000,
)  # fmt: skip

STRINGS = (
    '""', '"a"', '" "', '"-"', '"."', '".."', '"a b"', '"a\\n"', '"a\\u0000b"', '"\\ud800"', '"\\udc00x"',
    '"é"',
    '"e\\u0301"', '"\U0001f600"', '"' + "a" * 64 + '"', '"' + "a" * 65 + '"', '"' + "é" * 64 + '"',
    '"' + "a" * 4096 + '"',
    '"web"', '"Web"', '"server-1"', '"__proto__"', '"1"', '"up"', '"UP"', '"drain"', '"down"', '"backup"',
    '"host"', '"cgroup"', '"fresh"', '"none"', '"10.0.0.11:80"', '"10.0.0.11"', '"10.0.0.011:80"', '"0:80"',
    '"1.2.3.4:0"', '"1.2.3.4:65536"', '"1.2.3.4:080"', '"1.2.3.4:8０"', '"[::1]:80"', '"::1:80"',
    '"[::ffff:1.2.3.4]:80"', '"[fe80::1%eth0]:80"', '"[1::2::3]:80"', '"[::1.2.3.400]:80"', '"[]:80"',
    '"[::]:1"', '"[12345::]:1"', '"[1:2:3:4:5:6:7:8]:1"', '"[1:2:3:4:5:6:7::]:1"', '"[::2:3:4:5:6:7:8]:1"',
    '"unix:/x"', '"a.example:80"', '"/healthz"', '"/a b"', '"/\\r\\nX: y"', '"/é"', '"/"', '"address"',
    '"uri"',
    '"header:x"', '"header:"', '"header:' + "x" * 64 + '"', '"header:' + "x" * 65 + '"', '"cookie:a b"',
    '"argument:ü"', '"vnswrr"', '"vnswrr2"',
)  # fmt: skip

SHAPES = (
    "true", "false", "null", "[]", "{}", "[[]]", "[null]", "[1,2]", "[200]", "[99]", '{"a":1}',
    '{"a":1,"a":2}',
    '[{"id":"x"}]', "[" * 50 + "]" * 50, "[" * 990 + "]" * 990, "[" * 100_000,
    '{"a":' * 1500 + "1" + "}" * 1500,
)  # fmt: skip

VALUES = NUMBERS + STRINGS + SHAPES
"""Texts that may stand where JSON has a value."""

KEYS = (
    '"v"', '"peers"', '"upstream"', '"peer"', '"lb"', '"id"', '"weight"', '"baseline"', '"address"',
    '"state"',
    '"check"', '"statuses"', '"hash_key"', '"order"', '"rung"', '"leaving"', '"term"', '"generation"', '""',
    '"\\u0076"', '"PEERS"', '"__class__"',
)  # fmt: skip
"""Names of members."""

PIECES = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\t", b"\n", b"\r\n",
    b"\x0b",
    b"\x1f", b"\x7f", b" ", b"\"", b"\\", b"\\\"", b"{", b"}", b"[", b"]", b"},{", b",", b":", b"-", b"/",
    b"%",
    b"0" * 30, b"9" * 30, b"max", b"-1", b"1e9", b"NaN",
    b"' OR 1", b"..", b"(", b")", b"=", b"\\u0000", b"a" * 300,
    b"\"peers\":[", b"\"peers\":{}", b"}]}",
)  # fmt: skip
"""Bytes to put anywhere."""
