"""The command: figures by folder, or the lint (I/O)."""

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from .prose import blocks
from .rules import complaints
from .sentences import Sentence, figures, sentences


def main() -> int:
    """Measure or lint the files that git knows; return 1 if the lint has something to say."""
    parser = argparse.ArgumentParser(prog="python -m testing.english", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders (default: all that git knows)")
    parser.add_argument("--lint", action="store_true", help="print complaints instead of figures")
    parser.add_argument("--files", action="store_true", help="figures by file, those with the longest first")
    options = parser.parse_args()
    texts = {path: _sentences(path) for path in _files(options.paths or [Path()])}
    return _lint(texts) if options.lint else _report(texts, by_file=options.files)


def _files(paths: list[Path]) -> list[Path]:
    named = {path for path in paths if path.is_file()}
    folders = [str(path) for path in paths if path not in named]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout if folders else ""
    return sorted(named | {path for each in listed.split("\0") if each and (path := Path(each)).is_file()})


def _sentences(path: Path) -> list[Sentence]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []  # a picture
    return list(sentences(blocks(str(path), text)))


def _lint(texts: dict[Path, list[Sentence]]) -> int:
    lines = [
        f"{path}:{sentence.line}: {complaint}\n    {sentence.text}"
        for path, found in texts.items()
        for sentence in found
        for complaint in complaints(sentence)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if lines:
        plural = "" if len(lines) == 1 else "s"
        sys.stdout.write(f'{len(lines)} complaint{plural} (CONTRIBUTING.md, "English")\n')
    return 1 if lines else 0


def _report(texts: dict[Path, list[Sentence]], *, by_file: bool) -> int:
    groups: dict[str, list[Sentence]] = defaultdict(list)
    for path, found in texts.items():
        groups[str(path) if by_file else _group(path)].extend(found)
        groups["all"].extend(found)
    sys.stdout.write(f"{'':56} sentences  median words  relative words  over 30 words\n")
    rows = [(group, figures(found)) for group, found in groups.items() if found]
    for group, row in sorted(rows, key=lambda each: -each[1].median_words if by_file and each[1] else 0):
        if row is not None:
            counts = f"{row.sentences:9}  {row.median_words:12g}  {row.relatives:14.2f}  {row.long:13.1%}"
            sys.stdout.write(f"{group:56} {counts}\n")
    return 0


def _group(path: Path) -> str:
    """Return the folder of a page, or the distribution and language of a source."""
    if path.suffix == ".md":
        return f"{path.parent}/*.md" if len(path.parts) > 1 else "*.md"
    tests = "tests " if {"tests", "spec"} & set(path.parts) else ""
    return f"{path.parts[0]} {tests}{path.suffix}" if len(path.parts) > 1 else f"* {path.suffix}"


if __name__ == "__main__":
    sys.exit(main())
