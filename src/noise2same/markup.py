"""Bits of HTML in which results show themselves in a notebook; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

CELL = "text-align: left; vertical-align: top; padding: 2px 12px 2px 0"


def table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """A table of text.

    Examples
    --------
    >>> "<b>" in table([("a", "<b>")])
    False
    """
    head = f"<thead><tr>{_cells(header, 'th')}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _cells(row: Sequence[object], tag: str) -> str:
    return "".join(f'<{tag} style="{CELL}">{escape(str(value))}</{tag}>' for value in row)


def heading(text: str) -> str:
    """A line in bold."""
    return f"<p><strong>{escape(text)}</strong></p>"


def paragraph(text: str) -> str:
    """Plain text."""
    return f"<p>{escape(text)}</p>"


def folded(title: str, content: str) -> str:
    """Content, itself HTML, that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def bar(share: float, text: str) -> str:
    """A progress bar, and a line beside it."""
    return f'<div><progress value="{share:.4f}" max="1"></progress> {escape(text)}</div>'


def framed(color: str, content: str) -> str:
    """Content, itself HTML, with a line of a color beside it."""
    return f'<div style="border-left: 4px solid {escape(color)}; padding-left: 12px">{content}</div>'
