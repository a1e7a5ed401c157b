"""`opm build` accepts the library's dist.ini (opm 0.0.7; its README, "File dist.ini")."""

import re
from configparser import ConfigParser
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "openresty/lua-resty-vnswrr"

NEEDED = {"name", "abstract", "author", "is_original", "license", "repo_link"}
# For other keys, opm reports "unrecognized keys" and builds nothing.
KNOWN = {*NEEDED, "version", "requires", "exclude_files", "lib_dir", "doc_dir", "main_module"}
# Dependencies that are not opm packages, and need no account before their names.
GIVEN = {"openresty", "luajit", "nginx", "ngx_lua", "ngx_http_lua"}


def test_opm_knows_every_key_and_value_of_the_dist_ini() -> None:
    parser = ConfigParser(interpolation=None)
    parser.read_string("[default]\n" + (LIBRARY / "dist.ini").read_text(encoding="utf-8"))
    library = parser["default"]
    assert NEEDED <= set(library) <= KNOWN
    assert (library["name"], library["is_original"], library["license"]) == (LIBRARY.name, "yes", "apache2")
    assert re.fullmatch(r"https?://[^\s\"'<>{}]+", library["repo_link"])
    assert set(re.split(r"\s*,\s*", library["requires"])) <= GIVEN
    # opm takes the first version in the main module.
    assert re.search(r"\b_?VERSION\s*=\s*\"[\w.]+\"", (LIBRARY / library["main_module"]).read_text())
    assert (LIBRARY / library["lib_dir"]).is_dir()
    assert (LIBRARY / library["doc_dir"]).is_dir()
    assert (LIBRARY / "README.md").is_file()
