"""A hatch hook: PyPI shows the README with links to GitHub, where the checkout has relative ones.

PyPI does not know the files beside the README, so that its picture and links would lead nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/noise2same/noise2same"


def absolute_links(markdown: str) -> str:
    """Turn links to files of the repository into links to GitHub.

    >>> absolute_links("![Demo](docs/demo.png) [guide](docs/guide.md#axes) [below](#results) [site](https://a.org)")
    '![Demo](https://github.com/noise2same/noise2same/raw/main/docs/demo.png) \
[guide](https://github.com/noise2same/noise2same/blob/main/docs/guide.md#axes) [below](#results) [site](https://a.org)'
    """
    relative = r"(?!https?:|#|mailto:)([^)\s]+)"
    markdown = re.sub(rf"(!\[[^\]]*\])\({relative}\)", rf"\1({REPOSITORY}/raw/main/\2)", markdown)
    return re.sub(rf"(?<=\])\({relative}\)", rf"({REPOSITORY}/blob/main/\1)", markdown)


class Readme(MetadataHookInterface):
    """Called by hatch when the package is built or installed."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text)}
