"""Pages and comments name only existing files, folders, headings, names in files, and members of modules."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]

# The prose of a file by its suffix: pages and tables are all prose, other files have comments.
SCRIPT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
SLASHES = re.compile(r"/\*(?:.|\n)*?\*/|(?:^|(?<=\s))//.*", re.MULTILINE)
PROSE = {
    **dict.fromkeys((".md", ".toml"), re.compile(r"(?:.|\n)+")),
    **dict.fromkeys((".js", ".css", ".go"), SLASHES),
    **dict.fromkeys(("", ".yml", ".yaml", ".conf", ".service", ".sh"), SCRIPT),
    ".py": re.compile(rf'"""(?:.|\n)*?"""|{SCRIPT.pattern}', re.MULTILINE),
    ".lua": re.compile(r"--.*"),
}
NO_PROSE = re.compile(r"(?!)")
NOT_READ = re.compile(r"CHANGELOG\.md|docs/benchmarks-full/|docs/tests/test_named_files\.py")

# A path begins with a top folder; or it is the end of a path, with the suffix of a source.
SOURCE = r"[\w-]+(?:\.[\w-]+)*\.(?:py|lua|js|toml|md|yml|yaml|sh|css|html)\b(?![\w/-])"
NOT_IN_THE_TREE = re.compile(
    r"setup\.py|web\.yaml|my\.toml|OUT/NAME\.md|report\.md|config\.yaml"  # others'
    r"|controller/steelyard_controller/api/static|openresty/lua-resty-balancer"  # built, not ours
    r"|.*\b(?:test_law_)?mine(?:_spec)?\..*"  # files that a recipe's reader writes
)

NAMES = r"((?:`[^`\n]+`(?:, | and ))*`[^`\n]+`)"
IN_A_FILE = re.compile(rf"{NAMES} (?:in|of) `([^`\s]+\.(?:py|lua|js|toml))`")
MEMBER_OF_A_PAGE = re.compile(r"(?<![\w.])([a-z_]+)\.([A-Z][A-Z0-9_]{2,})\b")
MEMBER = re.compile(rf"`([a-z_]+)\.(\w+)(?:\(\))?`|{MEMBER_OF_A_PAGE.pattern}")
OF_OTHERS = re.compile(r"\w+\.NAME|json\.\w+|nginx\.memcached")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def tree() -> Mapping[str, str]:
    """Return the text of each file by its path, except ignored files."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = [".git", *(line.strip("/") for line in lines if not line.startswith("#"))]
    texts: dict[str, str] = {}
    for folder, folders, files in os.walk(ROOT):
        within = Path(folder).relative_to(ROOT)
        folders[:] = [each for each in folders if not {each, str(within / each)} & set(ignored)]
        texts |= {str(within / file): Path(folder, file).read_text(errors="replace") for file in files}
    return texts


@cache
def ends() -> Mapping[str, frozenset[str]]:
    """Return the files and folders by each end of their path, such as `laws/static.py` or `laws`."""
    whole = {path for file in tree() for path in (file, *map(str, PurePath(file).parents))} - {"."}
    by_end: dict[str, set[str]] = {}
    for path in whole:
        parts = path.split("/")
        for first in range(len(parts)):
            by_end.setdefault("/".join(parts[first:]), set()).add(path)
    return {end: frozenset(paths) for end, paths in by_end.items()}


@cache
def path_pattern() -> re.Pattern[str]:
    """Return the pattern of a path in prose."""
    folders = "|".join({re.escape(path.split("/")[0]) for path in tree() if "/" in path and path[0] != "."})
    return re.compile(rf"(?<![\w/.@:~$}}>*-])(?:(?:{folders})/[\w./-]*\w|(?:[\w.-]+/)*{SOURCE})")


def has(path: str, name: str) -> bool:
    """Return whether a name occurs in a file, or in a file of a folder."""
    within = [path] if path in tree() else [file for file in tree() if file.startswith(f"{path}/")]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", tree()[file]) for file in within)


def missing(page: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield each missing thing that a text of the page names, after its offset in the text."""
    for each in path_pattern().finditer(text):
        path = each[0].rstrip(".")
        beside = ROOT / PurePath(page).parent / path
        if path not in ends() and not beside.exists() and not NOT_IN_THE_TREE.fullmatch(path):
            yield each.start(), f"no {path}"
    for each in IN_A_FILE.finditer(text):
        for name in re.findall(r"`([^`/]+)`", each[1]):
            if not any(has(path, name.removesuffix("()")) for path in ends().get(each[2], ())):
                yield each.start(), f"no `{name}` in {each[2]}"
    for each in (MEMBER_OF_A_PAGE if page.endswith(".md") else MEMBER).finditer(text):
        module, member = filter(None, each.groups())
        if not is_member(module, member):
            yield each.start(), f"no {member} in {module}"


def is_member(module: str, member: str) -> bool:
    """Return whether a module, or one of a folder, has the member; true for foreign modules."""
    named = f"{module}.{member}"
    if OF_OTHERS.fullmatch(named) or {named, f"{module}/{member}.py"} & ends().keys():
        return True
    sources = [path for end in (f"{module}.py", f"{module}.lua", module) for path in ends().get(end, ())]
    return not sources or any(has(path, member) for path in sources)


def broken_links(page: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the broken links of a page."""
    for each in LINK.finditer(text):
        target = ROOT / PurePath(page).parent / each[1] if each[1] else ROOT / page
        headings = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE) if each[2] else []
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not target.exists() or (each[2] and each[2] not in anchors):
            yield each.start(), f"a link to no {each[1]}#{each[2]}"


def stale(page: str, whole: str) -> list[str]:
    """Return a line for each missing thing."""
    complaints = []
    for prose in PROSE.get(PurePath(page).suffix, NO_PROSE).finditer(whole):
        looks = [missing, broken_links] if page.endswith(".md") else [missing]
        for place, complaint in (each for look in looks for each in look(page, prose[0])):
            line = whole.count("\n", 0, prose.start() + place) + 1
            complaints.append(f"{page}:{line}: {complaint}")
    return complaints


def test_what_pages_and_comments_name_is_there() -> None:
    complaints = [
        each for page, text in tree().items() if not NOT_READ.match(page) for each in stale(page, text)
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("page", "text", "complaint"),
    [
        ("docs/architecture.md", "a\nsee docs/pages.md.", "docs/architecture.md:2: no docs/pages.md"),
        ("docs/architecture.md", "`tick/loops.py` does", "docs/architecture.md:1: no tick/loops.py"),
        (
            "docs/architecture.md",
            "[it](control-law.md#no-such-thing)",
            "docs/architecture.md:1: a link to no control-law.md#no-such-thing",
        ),
        (
            "docs/architecture.md",
            "`a_name` in `tick/batch.py`",
            "docs/architecture.md:1: no `a_name` in tick/batch.py",
        ),
        ("agent/a.py", 'X = "io/saved.lua"\n# io/saved.lua\n', "agent/a.py:2: no io/saved.lua"),
        (
            "agent/a.py",
            '"""One.\n\n`replay_guard.nothing` is it.\n"""',
            "agent/a.py:3: no nothing in replay_guard",
        ),
        ("a.toml", "x = 1  # wire.NOTHING s", "a.toml:1: no NOTHING in wire"),
        ("a.lua", 'x("a/b.lua") -- a/b.lua', "a.lua:1: no a/b.lua"),
        ("Makefile", "lint:  ## scripts/lint", "Makefile:1: no scripts/lint"),
    ],
)
def test_a_stale_name_is_shown_with_its_place(page: str, text: str, complaint: str) -> None:
    assert stale(page, text) == [complaint]
