"""bin/steelyard-upstream: its upstream blocks for each kind of nginx, and its errors."""

import re
import subprocess
from pathlib import Path

import pytest

from openresty.tests.nginx_process import config

pytestmark = pytest.mark.integration

OPENRESTY = Path(__file__).parents[1]
GENERATOR = OPENRESTY / "bin" / "steelyard-upstream"


def generate(*arguments: str, nginx: str = "") -> subprocess.CompletedProcess[str]:
    """Run the generator."""
    command = [str(GENERATOR), *arguments, *(["--nginx", nginx] if nginx else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_example_of_many_servers_is_for_the_blocks_that_it_says_how_to_print() -> None:
    example = (OPENRESTY / "examples" / "many-servers.conf").read_text()
    (command,) = re.findall(r"steelyard-upstream (.*) > (\S+)", example)
    assert f"include {command[1]};" in example
    printed = generate(*command[0].split(), "--platform", "debian").stdout
    assert f"keepalive {(2000 + 256) // 32 + 35};" in printed
    for said in (
        "shards = 32",
        'set_by_lua_block $steelyard_web { return require("steelyard").shard("web") }',
    ):
        assert said in printed
        assert said in example


@pytest.mark.parametrize(
    ("arguments", "blocks", "pool"),
    [
        (("web", "--servers", "3"), ["web"], "keepalive 259;"),
        (("web", "--servers", "99", "--concurrency", "1"), ["web"], "keepalive 100;"),
        (("web", "--servers", "100"), [f"web_{i:02}" for i in range(32)], "keepalive 25;"),
        (
            ("a-b.c", "--servers", "9", "--shards", "3"),
            ["a-b.c_00", "a-b.c_01", "a-b.c_02"],
            "keepalive 126;",
        ),
        (
            ("web", "--servers", "5000", "--shards", "120"),
            [f"web_{i:02}" for i in range(120)],
            "keepalive 71;",
        ),
        (("web", "--servers", "5000", "--shards", "1"), ["web"], "keepalive 5256;"),
    ],
)
def test_what_is_generated_is_taken_by_nginx(
    tmp_path: Path, arguments: tuple[str, ...], blocks: list[str], pool: str
) -> None:
    run = generate(*arguments, "--platform", "debian")  # any nginx accepts these
    assert (run.returncode, run.stderr) == (0, "")
    # Beside the shards there is a whole pool, for an init_worker without `shards`.
    whole = blocks if blocks == ["web"] else [arguments[0], *blocks]
    assert re.findall(r"^upstream (\S+) {", run.stdout, re.MULTILINE) == whole
    assert run.stdout.count(pool) == len(blocks)
    assert run.stdout.count(f'balance("{arguments[0]}")') == len(whole)
    variable = "steelyard_" + re.sub("[-.]", "_", arguments[0])
    assert (f"set_by_lua_block ${variable} " in run.stdout) == (len(blocks) > 1)
    path = tmp_path / "nginx.conf"
    (tmp_path / "web.conf").write_text(run.stdout)
    path.write_text(config(f"include {tmp_path}/web.conf;", 1).replace("@FOLDER@", str(tmp_path)))
    check = subprocess.run(
        ["nginx", "-t", "-q", "-c", str(path), "-e", "stderr"], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_one_block_for_all_upstreams_asks_the_variable_that_says_which() -> None:
    run = generate("any", "--servers", "1000", "--platform", "debian", "--variable", "steelyard_upstream")
    assert run.stdout.count("upstream any {") == run.stdout.count("balance(ngx.var.steelyard_upstream)") == 1
    assert "keepalive 1256;" in run.stdout


def test_with_balancer_keepalive_one_block_is_enough_for_any_number() -> None:
    text = generate("web", "--servers", "5000", "--platform", "openresty").stdout
    assert text.count("upstream web {") == text.count("balancer_keepalive 5256;") == 1
    assert "shard" not in text


def test_the_nginx_tells_whether_it_has_balancer_keepalive(tmp_path: Path) -> None:
    for directive, pool in (("balancer_keepalive", "balancer_keepalive"), ("", "keepalive")):
        nginx = tmp_path / f"nginx-{pool}"
        nginx.write_text(f"#!/bin/sh\n# balancer_by_lua_block {directive}\necho configure arguments: >&2\n")
        nginx.chmod(0o755)
        assert f"    {pool} 259;" in generate("web", "--servers", "3", nginx=str(nginx)).stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "needs the NAME of the upstream"),
        (("any", "--servers", "9", "--variable", "$upstream"), "write it without the dollar"),
        (
            ("any", "--servers", "9", "--variable", "upstream", "--shards", "2"),
            "--variable goes with one block",
        ),
        (("web",), "needs --servers N"),
        (("web", "api", "--servers", "1"), "one NAME is enough"),
        (("we/b", "--servers", "1"), "`we/b` is no name"),
        (("-web", "--servers", "1"), "-web is unknown"),
        (("web", "--servers"), "--servers needs a value"),
        (("web", "--servers", "0"), "--servers is `0`; it must be a whole number within 1..100000"),
        (("web", "--servers", "010"), "--servers is `010`"),
        (("web", "--servers", "1e3"), "--servers is `1e3`"),
        (("web", "--servers", "99999999999999999999"), "--servers is `99999999999999999999`"),
        (("web", "--servers", "5", "--concurrency", "-1"), "--concurrency is `-1`"),
        (("web", "--servers", "5", "--shards", "0"), "--shards is `0`"),
        (("web", "--servers", "5", "--platform", "tengine"), "--platform is `tengine`; it may be openresty"),
        (("web", "--servers", "5", "--nginx", "/nowhere/nginx"), "there is no nginx at `/nowhere/nginx`"),
        (("web", "--servers", "5", "--nginx", "/bin/true"), "`/bin/true` has no Lua"),
    ],
)
def test_the_generator_says_what_is_wrong_and_prints_no_block(
    arguments: tuple[str, ...], problem: str
) -> None:
    run = generate(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("steelyard-upstream: ")
    assert problem in run.stderr
    assert run.stderr.count("\n") == 1


def test_the_generator_explains_itself() -> None:
    run = generate("--help")
    assert (run.returncode, run.stderr) == (0, "")
    for option in ("--servers", "--concurrency", "--nginx", "--platform", "--shards"):
        assert option in run.stdout


def test_a_full_disk_is_one_line_and_leaves_an_earlier_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "web.conf"
    file.write_text("earlier\n")
    arguments = f"{GENERATOR} web --servers 300 --platform debian"
    for command, message in (
        (f"{arguments} >/dev/full", "standard output cannot be written"),
        (f"{GENERATOR} --help >/dev/full", "standard output cannot be written"),
        # The system refuses more than one block, as on a full disk.
        (f"trap '' XFSZ; ulimit -f 1; {arguments} --output {file}", f"{file} cannot be written"),
        (f"{arguments} --output {tmp_path}/none/web.conf", f"{tmp_path}/none/web.conf cannot be written"),
    ):
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (7, "")
        assert run.stderr.startswith(f"steelyard-upstream: {message}")
        assert len(run.stderr.splitlines()) == 1
    assert generate("web", "--servers", "3", "--output", str(tmp_path)).returncode == 2
    assert (file.read_text(), list(tmp_path.iterdir())) == ("earlier\n", [file])
    file.chmod(0o640)
    written = ("web", "--servers", "300", "--platform", "debian", "--output", str(file))
    assert generate(*written).returncode == 0
    assert file.read_text().startswith("# Made by: steelyard-upstream web --servers 300")
    assert (file.stat().st_mode & 0o777, list(tmp_path.iterdir())) == (0o640, [file])
