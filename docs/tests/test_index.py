"""docs/README.md, the way into the documentation, links every page."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1]


def test_the_index_links_every_guide_reference_and_research_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", index))
    folders = ("guides", "reference", "research")
    pages = {str(page.relative_to(DOCS)) for folder in folders for page in (DOCS / folder).glob("*.md")}
    assert pages - linked == set()
