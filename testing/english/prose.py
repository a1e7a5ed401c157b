"""Finds the prose in a file: paragraphs, comments, docstrings and messages. Pure.

Code spans and placeholders become the word CODE, so that a sentence keeps its shape. Fenced code is no prose.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath

from markdown_it import MarkdownIt

CODE = "CODE"

SHORTEST_MESSAGE = 5
"""Fewest words of a string literal that counts as a message; shorter ones are mostly names and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of prose: a paragraph, a heading, a table's cell, a comment, a docstring or a message."""

    line: int
    kind: str
    text: str


def blocks(path: str, text: str) -> list[Block]:
    """Return the prose of a file; an empty list for kinds of files without prose."""
    kind = PurePath(path).suffix or PurePath(path).name
    reader = READERS.get(kind) or (script if text.startswith("#!") else None)
    if reader is None:
        return []
    found = reader(text)
    if "/tests/" in f"/{path}" or "/spec/" in path:
        found = (each for each in found if each.kind != "message")
    return [each for each in found if re.search(r"[a-z]{2}", each.text)]


def markdown(text: str) -> Iterator[Block]:
    """Yield paragraphs, headings, list items and table cells."""
    kind, line = "paragraph", 1
    # A template's statements are no prose, but their lines count.
    text = re.sub(r"\{%.*?%\}", "", text)
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map:
            line = token.map[0] + 1
        if token.type in ("heading_open", "td_open", "th_open", "paragraph_open"):
            kind = {"heading_open": "heading", "paragraph_open": "paragraph"}.get(token.type, "cell")
        if token.type == "inline":
            prose = "".join(_inline(token.children or []))
            # In a cell, semicolons separate the entries of a list.
            for entry in prose.split("; ") if kind == "cell" else [prose]:
                yield Block(line=line, kind=kind, text=entry)


def _inline(tokens: Iterable[object]) -> Iterator[str]:
    for token in tokens:
        match getattr(token, "type", ""):
            case "text":
                yield str(getattr(token, "content", ""))
            case "code_inline":
                yield CODE
            case "softbreak" | "hardbreak":
                yield " "


def python(text: str) -> Iterator[Block]:
    """Yield docstrings, comments and messages."""
    nodes: list[object] = [ast.parse(text)]
    for node in nodes:  # the loop appends to this list; ast.walk would take three times the CPU time
        match node:
            # A string by itself documents the line above it, too (PEP 257's attribute docstrings).
            case ast.Expr(value=ast.Constant(value=str(documented)) as string):
                yield from _paragraphs(string.lineno, "docstring", documented, string.col_offset)
            case ast.JoinedStr():
                parts = (str(each.value) if isinstance(each, ast.Constant) else CODE for each in node.values)
                yield from _message(node.lineno, "".join(parts))
            case ast.Constant(value=str(message)):
                yield from _message(node.lineno, message)
            case ast.AST() if not isinstance(node, WITHOUT_STRINGS):
                for child in vars(node).values():
                    if isinstance(child, list):
                        nodes += child
                    elif isinstance(child, ast.AST):
                        nodes.append(child)
    yield from _joined(_python_comments(text))


def _python_comments(text: str) -> Iterator[tuple[int, int, bool, str]]:
    number, counted = 1, 0
    for found in PYTHON_COMMENT.finditer(text):
        if found[1] is not None:
            number += text.count("\n", counted, found.start())
            counted = found.start()
            before = text[text.rfind("\n", 0, counted) + 1 : counted]
            yield number, len(before), not before.strip(), found[1].lstrip("#!: ")


def lua(text: str) -> Iterator[Block]:
    """Yield comments and messages."""
    lines = text.splitlines()
    yield from _comments(lines, LUA_COMMENT)
    for number, line in enumerate(lines, 1):
        code = LUA_COMMENT.sub("", line)
        for quoted in re.finditer(r'"((?:[^"\\]|\\.)*)"', code):
            yield from _message(number, quoted[1])


def javascript(text: str) -> Iterator[Block]:
    """Yield comments and messages."""
    lines = text.splitlines()
    yield from _comments(lines, SLASHES)
    for comment in re.finditer(r"/\*((?:.|\n)*?)\*/", text):
        yield from _paragraphs(
            text.count("\n", 0, comment.start()) + 1, "comment", re.sub(r"(?m)^\s*\* ?", "", comment[1])
        )
    for number, line in enumerate(lines, 1):
        for quoted in re.finditer(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`', SLASHES.sub("", line)):
            yield from _message(number, re.sub(r"\$\{[^}]*\}", CODE, quoted[1] or quoted[2] or ""))


def html(text: str) -> Iterator[Block]:
    """Yield comments and the text between tags."""
    for found in re.finditer(r"<!--((?:.|\n)*?)-->|>([^<>{}]+)<", text):
        yield from _message(text.count("\n", 0, found.start()) + 1, found[1] or found[2])


def script(text: str) -> Iterator[Block]:
    """Yield the comments of a shell script, a configuration file, a Makefile, YAML."""
    lines = text.splitlines()
    yield from _comments(lines, HASH)
    for number, line in enumerate(lines, 1):
        if found := re.search(r"^\s*(?:description|summary|text)\w*: *(.+)", line):
            yield from _message(number, found[1].strip("'\"|>- "))


def toml(text: str) -> Iterator[Block]:
    """Yield comments and strings that are messages."""
    yield from script(text)

    def strings(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from chain.from_iterable(map(strings, value.values()))
        elif isinstance(value, list):
            yield from chain.from_iterable(map(strings, value))

    for each in strings(tomllib.loads(text)):
        at = text.find(each.split("\n")[0][:40])
        yield from _message(text.count("\n", 0, max(at, 0)) + 1, each)


def _comments(lines: Iterable[str], pattern: re.Pattern[str]) -> Iterator[Block]:
    """Find the comments of lines."""
    yield from _joined(
        (number, found.start(), not line[: found.start()].strip(), found[1])
        for number, line in enumerate(lines, 1)
        if (found := pattern.search(line))
    )


def _joined(comments: Iterable[tuple[int, int, bool, str]]) -> Iterator[Block]:
    """Join comments on successive lines: line, column, whether no code precedes it, text.

    A comment behind code begins anew; the next line continues it only in the same column.
    """
    started, last, words = 0, (-1, 0), [""]
    for number, column, alone, text in chain(comments, [(-9, 0, True, "")]):
        begins = (number - 1, column) != last or not alone
        if begins and any(words):
            yield from _paragraphs(started, "comment", "\n".join(words))
        if begins:
            started, words = number, []
        words.append(text)
        last = (number, column)


def _message(line: int, text: str) -> Iterator[Block]:
    if PROGRAM.search(text):
        return
    if len(re.findall(r"(?<![\w./-])[A-Za-z][a-z]*(?![\w/=(])", text)) >= SHORTEST_MESSAGE and " " in text:
        yield from _paragraphs(line, "message", text)


def _paragraphs(line: int, kind: str, text: str, margin: int = 0) -> Iterator[Block]:
    """Split at empty lines, list items and definitions; leave out indented code, tables and formulas."""
    words: list[str] = []
    begins, hangs = line, False
    for number, raw in enumerate([*text.splitlines(), ""], line):
        content = raw[margin:] if raw[:margin].isspace() else raw.lstrip() if kind == "message" else raw
        bare = content.strip()
        item = re.match(r"(?:[-*]|\d+\.) +|\S+(?: \S+){0,4} {2,}(?=\S)", bare)
        literal = (content.startswith("    ") and not hangs) or re.match(
            r"[|+>$<]|--+$|==+$|noqa|type:|luacheck:|@\w", bare
        )
        if words and (not bare or item or literal):
            yield Block(line=begins, kind=kind, text=_spans(" ".join(words)))
            words = []
        # The lines below a definition's first one are indented, and are no code.
        hangs = bool(bare) and not literal and (hangs or bool(item))
        if bare and not literal:
            if not words:
                begins = number
            words.append(bare[item.end() :] if item else bare)


def _spans(text: str) -> str:
    text = re.sub(r"``?[^`]*``?", CODE, text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"%[-+.\d]*[sdrfgxi]\b|\{[^{}]*\}|https?://\S+|<[^<>]*>", CODE, text)


# A string with a line of Lua, SQL or nginx.conf, or the start of a configuration's section, is a program.
PROGRAM = re.compile(
    r"^(?:local \w+ =|if .* then|for .* do|return \w+[.(]|SELECT |UPDATE |[a-z_]+ \S+;$"
    r"|(?:events|http) \{|global$)",
    re.MULTILINE,
)
WITHOUT_STRINGS = (ast.Name, ast.alias, ast.expr_context, ast.operator, ast.cmpop)
# A string is matched whole, so that a "#" within it begins no comment.
PYTHON_COMMENT = re.compile(
    r'''"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"""|"(?:[^"\\\n]++|\\.)*+"|'''
    r"""'''(?:[^'\\]++|\\.|'{1,2}(?!'))*+'''|'(?:[^'\\\n]++|\\.)*+'|(\#[^\n]*+)""",
    re.DOTALL,
)
LUA_COMMENT = re.compile(r"""(?:^|(?<=[\s,;)}"]))--+ ?\[?\[?(?![^"]*"[^"]*$)(.*)""")
SLASHES = re.compile(r"(?:^|(?<=\s))// ?(.*)")
HASH = re.compile(r"(?:^|(?<=\s))#+(?!!) ?(.*)")

READERS = {
    ".md": markdown,
    ".py": python,
    ".lua": lua,
    **dict.fromkeys((".js", ".css", ".go"), javascript),
    ".html": html,
    ".toml": toml,
    **dict.fromkeys((".yml", ".yaml", ".conf", ".service", ".sh", ".cfg", "Makefile", "Dockerfile"), script),
}
