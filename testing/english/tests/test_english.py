"""Prose is found in each kind of file, cut into sentences, measured and judged."""

from pathlib import Path

import pytest

from testing.english.__main__ import main
from testing.english.prose import Block, blocks
from testing.english.rules import complaints
from testing.english.sentences import Sentence, figures, sentences


def texts(path: str, text: str) -> list[tuple[int, str, str]]:
    return [(each.line, each.kind, each.text) for each in blocks(path, text)]


def sentence(text: str, kind: str = "paragraph") -> Sentence:
    return Sentence(line=1, kind=kind, text=text)


def test_markdown_gives_paragraphs_headings_items_and_cells_without_code() -> None:
    page = (
        "# The title\n\nOne `x y`\nline.\n\n- an item\n\n```\nno prose\n```\n\n| a cell | `b` |\n|---|---|\n"
    )
    assert texts("a.md", page) == [
        (1, "heading", "The title"),
        (3, "paragraph", "One CODE line."),
        (6, "paragraph", "an item"),
        (12, "cell", "a cell"),
    ]


def test_a_cell_may_list_entries_and_a_template_has_statements() -> None:
    page = "{% if one is there and two %}\n\n| 3 of one; 4 of two |\n|---|\n"
    assert texts("a.md", page) == [(3, "cell", "3 of one"), (3, "cell", "4 of two")]


def test_a_link_counts_by_its_words() -> None:
    assert texts("a.md", "See [the guide](guides/nginx.md#a).\n") == [(1, "paragraph", "See the guide.")]


def test_python_gives_docstrings_comments_and_messages() -> None:
    source = '''"""The module.

    not = prose
"""

# One comment
# on two lines.
LIMIT = 3
"""Servers at most."""
raise ValueError(f"the name {LIMIT} is too long for a server")
key = "short one"
'''
    assert sorted(texts("a.py", source)) == [
        (1, "docstring", "The module."),
        (6, "comment", "One comment on two lines."),
        (9, "docstring", "Servers at most."),
        (10, "message", "the name CODE is too long for a server"),
    ]


def test_each_term_of_a_list_of_definitions_is_a_block() -> None:
    source = '"""Head.\n\nrate   requests a second,\n       of all\nsent_s, late_s   when it was sent\n"""\n'
    assert [text for _, _, text in texts("a.py", source)] == [
        "Head.",
        "requests a second, of all",
        "when it was sent",
    ]


def test_a_program_in_a_string_is_no_message() -> None:
    text = 'SCRIPT = """\nlocal held = redis.call(one)\nif held is there then return held and more end\n"""\n'
    assert list(blocks("a.py", text)) == []
    text = 'CONF = """\nevents {\n}\nhttp {\n  access_log off and many more directives in one block\n}\n"""\n'
    assert list(blocks("a.py", text)) == []


def test_a_configuration_of_nginx_in_a_string_is_no_message() -> None:
    source = (
        'CONF = """\nload_module a.so;\ndaemon off; pid nginx.pid; events { worker_connections 512; }\n"""\n'
    )
    assert texts("a.py", source) == []


def test_strings_of_tests_are_no_messages() -> None:
    source = 'name = "a string of a test with many words"\n'
    assert [kind for _, kind, _ in texts("a/b.py", source)] == ["message"]
    assert texts("a/tests/test_b.py", source) == []


def test_lua_gives_comments_and_messages() -> None:
    source = '--- Return one.\n-- More of it.\nlog("the server -- of old -- is down again")\nx = 1  -- one\n'
    assert texts("a.lua", source) == [
        (1, "comment", "Return one. More of it."),
        (4, "comment", "one"),
        (3, "message", "the server -- of old -- is down again"),
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", "x=1  # the reason\n"),
        ("bin/program", "#!/bin/sh\nx=1  # the reason\n"),
        ("a.conf", "# the reason\n"),
        ("Makefile", "all:  ## the reason\n"),
        ("a.js", "x();  // the reason\n"),
        ("a.css", "/* the reason */\n"),
        ("a.toml", "a = 1  # the reason\n"),
        ("a.html", "<!-- -->\n<p>the reason to be shown here</p>"),
    ],
)
def test_other_files_give_their_comments(path: str, text: str) -> None:
    assert [each.text.startswith("the reason") for each in blocks(path, text)] == [True]


def test_a_file_of_an_unknown_kind_has_no_prose() -> None:
    assert blocks("a.json", '{"a": "whoever reads this has a long sentence"}') == []


def test_sentences_end_at_points_but_not_after_abbreviations() -> None:
    text = "Qin et al. Use weights. The value is 1.5 s, e.g. One more? Yes."
    found = [each.text for each in sentences([Block(line=4, kind="paragraph", text=text)])]
    assert found == ["Qin et al. Use weights.", "The value is 1.5 s, e.g. One more?", "Yes."]


def test_a_unit_may_end_a_sentence() -> None:
    found = [
        each.text
        for each in sentences([Block(line=1, kind="paragraph", text="It took 5 s. So did A. Smith.")])
    ]
    assert found == ["It took 5 s.", "So did A. Smith."]


def test_a_sentence_may_begin_with_a_name_that_is_written_small() -> None:
    text = "It asks a server. nginx waits for the answer. gRPC has none, e.g. nginx says so."
    assert [each.text.split()[0] for each in sentences(blocks("a.md", text))] == ["It", "nginx", "gRPC"]


def test_figures_count_sentences_and_neither_headings_nor_cells() -> None:
    counted = [
        sentence("The server that answers is fast."),
        sentence("It has four words now."),
        sentence("Pure."),
    ]
    skipped = [
        sentence("A heading that says what it is", "heading"),
        sentence("a cell that has words", "cell"),
    ]
    found = figures([*counted, *skipped])
    assert found is not None
    assert (found.sentences, found.median_words, found.relatives, found.long) == (2, 5.5, 0.5, 0)
    assert figures(skipped) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("word " * 31, "31 words: split it (at most 30)"),
        ("Of a pod with both families IPv4 is taken.", 'opens with "Of": use for, with, among or in'),
        ("The file goes; whoever reads it waits.", '"whoever" as a bare subject'),
        ("What is lost stays lost.", '"What" as a bare subject'),
        ("Where a server fails, another is asked.", '"Where" as a bare subject'),
        ("It is what those that know say that it is.", "3 relative words (what, that, that)"),
        ("There are so many servers.", '"so many": use "N" or "at most N"'),
        ("Restore the backup of before now.", '"of before": use earlier'),
    ],
)
def test_a_sentence_that_stumbles_is_named(text: str, complaint: str) -> None:
    assert any(each.startswith(complaint) for each in complaints(sentence(text)))


@pytest.mark.parametrize(
    "text",
    [
        "A server is ejected when half of its tries fail.",
        "What happens when Redis dies?",
        "Who may drain a server? Everyone with the scope.",
        "Office hours are nine to five.",
    ],
)
def test_a_plain_sentence_and_a_question_pass(text: str) -> None:
    assert [
        c for each in sentences([Block(line=1, kind="paragraph", text=text)]) for c in complaints(each)
    ] == []


def test_a_heading_may_name_its_subject_with_what() -> None:
    assert list(complaints(sentence("What a tick does", "heading"))) == []


def test_the_lint_names_file_line_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "stumbling.md"
    page.write_text("# A title\n\nOf a pod only one address is taken.\n")
    monkeypatch.setattr("sys.argv", ["english", "--lint", str(page)])
    assert main() == 1
    out = capsys.readouterr().out
    assert "stumbling.md:3: opens with" in out
    assert out.endswith('1 complaint (CONTRIBUTING.md, "English")\n')


def test_each_comment_behind_code_is_one_of_its_own_with_the_lines_below_it_in_its_column() -> None:
    text = 'tag: ""    # of our images\nhosts: {}  # host names,\n           # with upstreams\n# A rule.\n'
    assert [each.text for each in blocks("values.yaml", text)] == [
        "of our images",
        "host names, with upstreams",
        "A rule.",
    ]
