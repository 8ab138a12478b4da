"""Checks that Markdown has one sentence a line, so that a diff shows the sentences that changed.

    python tools/check_markdown.py [--fix] [FILES...]

Paragraphs and list items are checked.
Code, tables, headings, quotations, HTML, formulas and front matter are left alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FENCE = re.compile(r"\s*(```+|~~~+|\$\$)")
ITEM = re.compile(r"\s*([-*+]|\d{1,2}[.)])\s+")
ADMONITION = re.compile(r"\s*(!!!|\?\?\?)")
# headings, tables, quotations, HTML, objects for mkdocstrings, snippets, rules, definitions of links
APART = re.compile(r"\s*(#{1,6} |\||>|<|:::|--8<--|(-{3,}|\*{3,}|={3,})\s*$|\[[^\]]+\]:)")
VERBATIM = re.compile(r"(`+).*?\1|\$[^$]+\$|\[[^\]]*\]\([^)]*\)")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|etc|eq|eqs|fig|figs|no|sec|dr|approx)\.$", re.IGNORECASE)
# a full stop, what closes with it, and a space before something that can begin a sentence but no list item
END = re.compile(r"""[.!?][)\]*_"'”’]*(?=\s(?!([-*+#>|]|\d{1,2}[.)])\s)[`*_(\["'“‘]*[A-Z0-9Α-Ωα-ω`\x00])""")


@dataclass(frozen=True)
class Paragraph:
    """Lines `first` to `last` (from 0, `last` not included) of a page that are one paragraph or list item."""

    first: int
    last: int
    marker: str  # what the first line begins with: an indentation, with a list's marker if it has one
    lines: tuple[str, ...]  # without marker and indentation

    def wrapped(self) -> list[str]:
        """The same text with one sentence a line."""
        first, *rest = sentences(" ".join(self.lines))
        return [self.marker + first, *(" " * len(self.marker) + line for line in rest)]


def sentences(text: str) -> list[str]:
    """Split a text into its sentences.

    >>> sentences("It trains. See `a. B` and Xie et al. in 2D! Then it denoises.")
    ['It trains.', 'See `a. B` and Xie et al. in 2D!', 'Then it denoises.']
    """
    masked = VERBATIM.sub(lambda found: "\0" * len(found[0]), text)
    ends = [end.end() for end in END.finditer(masked) if not ABBREVIATION.search(masked[: end.start() + 1])]
    return [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def paragraphs(page: list[str]) -> Iterator[Paragraph]:
    """Yield the paragraphs and list items of a page, given as its lines."""
    number = _after_front_matter(page)
    indented_text = False  # whether indented lines belong to a list or an admonition, and are not code
    while number < len(page):
        line = page[number]
        if fence := FENCE.match(line):
            number = _after_fence(page, number, fence[1])
        elif not line.strip() or APART.match(line) or ADMONITION.match(line):
            block = line.lstrip().startswith(("<", ":::"))  # HTML, or mkdocstrings' options: up to an empty line
            indented_text = bool(ADMONITION.match(line)) or (indented_text and not line.strip())
            number += 1
            while block and number < len(page) and page[number].strip():
                number += 1
        elif line.startswith("    ") and not indented_text:
            number += 1
        else:
            last = number + 1
            while last < len(page) and not _begins_something(page[last]):
                last += 1
            item = ITEM.match(line)
            indented_text = bool(item) or (indented_text and line.startswith(" "))
            marker = item[0] if item else line[: len(line) - len(line.lstrip())]
            texts = (line[len(marker) :], *page[number + 1 : last])
            if not any(text.endswith(("  ", "\\")) for text in texts[:-1]):  # line breaks that are meant
                yield Paragraph(number, last, marker, tuple(text.strip() for text in texts))
            number = last


def _begins_something(line: str) -> bool:
    return not line.strip() or any(kind.match(line) for kind in (FENCE, APART, ADMONITION, ITEM))


def _after_front_matter(page: list[str]) -> int:
    return page.index("---", 1) + 1 if page[:1] == ["---"] and "---" in page[1:] else 0


def _after_fence(page: list[str], number: int, fence: str) -> int:
    """The line after a block of code or formulas that begins in line `number`."""
    if fence == "$$" and page[number].count("$$") > 1:
        return number + 1
    for later in range(number + 1, len(page)):
        if page[later].strip().startswith(fence) or (fence == "$$" and "$$" in page[later]):
            return later + 1
    return len(page)


def problems(text: str) -> list[tuple[int, str]]:
    """List the numbers of lines (from 1) that hold two sentences or end within one, with what is wrong."""
    found = []
    for paragraph in paragraphs(text.splitlines()):
        wanted = _breaks(sentences(" ".join(paragraph.lines)))
        start = 0
        for number, line in enumerate(paragraph.lines, paragraph.first + 1):
            end = start + len(line)
            if any(start < place < end for place in wanted):
                found.append((number, "two sentences in a line"))
            if end not in wanted and number < paragraph.last:
                found.append((number, "a sentence goes on in the next line"))
            start = end + 1
    return found


def _breaks(lines: list[str]) -> set[int]:
    """Where lines end in the text that they are joined to by spaces."""
    return {len(" ".join(lines[:count])) for count in range(1, len(lines) + 1)}


def fixed(text: str) -> str:
    """The same page with one sentence a line."""
    page = text.splitlines()
    for paragraph in reversed(list(paragraphs(page))):
        page[paragraph.first : paragraph.last] = paragraph.wrapped()
    return "\n".join(page) + "\n"


def main() -> int:
    """Check the files, or rewrite them with --fix; the exit code is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="by default README, CONTRIBUTING, CHANGELOG and docs/*.md")
    parser.add_argument("--fix", action="store_true", help="rewrite them with one sentence a line")
    arguments = parser.parse_args()
    wrong = 0
    for path in arguments.files or [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]:
        text = path.read_text(encoding="utf-8")
        if arguments.fix:
            path.write_text(fixed(text), encoding="utf-8")
        else:
            found = problems(text)
            wrong += len(found)
            print(*(f"{path}:{number}: {what}\n" for number, what in found), sep="", end="")
    if wrong:
        print("Run `make format`.", file=sys.stderr)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
