"""What the package says of itself, and the pages that come with it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import noise2same

ROOT = Path(__file__).parents[1]
MARKDOWN = runpy.run_path(str(ROOT / "tools" / "check_markdown.py"))


def built(source: Path, folder: Path, kind: str) -> Path:
    """Build what would be uploaded, in this process and without the network."""
    hatchling = pytest.importorskip("hatchling.build", reason="comes with the extra dev")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(source)
        patch.setattr(sys, "dont_write_bytecode", True)
        return folder / getattr(hatchling, f"build_{kind}")(str(folder))


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    return built(ROOT, folder, "wheel"), built(ROOT, folder, "sdist")


@pytest.fixture(scope="module")
def wheel(distributions):
    with zipfile.ZipFile(distributions[0]) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_the_version_is_the_same_everywhere(metadata):
    assert metadata["Version"] == noise2same.__version__
    assert f'version: "{noise2same.__version__}"\n' in (ROOT / "recipe" / "recipe.yaml").read_text()
    assert f"\nversion: {noise2same.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{noise2same.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_wheel_and_sdist_pass_the_checks_of_uploads(distributions):
    pytest.importorskip("twine", reason="comes with the extra dev")
    for command in (["twine", "check", "--strict", *distributions], ["check_wheel_contents", distributions[0]]):
        ended = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_sdist_builds_the_same_wheel(distributions, wheel, tmp_path):
    with tarfile.open(distributions[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    with zipfile.ZipFile(built(source, tmp_path, "wheel")) as again:
        assert {one.filename: one.CRC for one in again.infolist()} == {
            one.filename: one.CRC for one in wheel.infolist()
        }


def test_networks_and_types_come_with_the_package(wheel):
    names = wheel.namelist()
    assert "noise2same/py.typed" in names
    assert [name for name in names if name.endswith(".safetensors")]
    assert not [name for name in names if name.startswith(("tests/", "tools/", "docs/"))]


def test_napari_finds_the_plugin(wheel, metadata):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "[napari.manifest]\nnoise2same = noise2same.napari:napari.yaml\n" in wheel.read(name).decode()
    assert "noise2same/napari/napari.yaml" in wheel.namelist()
    assert "Framework :: napari" in metadata.get_all("Classifier")


def test_classifiers_are_known(metadata):
    known = pytest.importorskip("trove_classifiers", reason="comes with hatchling").classifiers
    assert set(metadata.get_all("Classifier")) <= known


def test_pypi_can_follow_every_link_of_the_readme(metadata):
    page = metadata.get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert links
    assert not [link for link in links if not link.startswith(("https://", "#"))]


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert not [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()]


PAGE = """---
title: Front matter. It stays.
---
# A heading. It stays

One sentence.
Another, with `code. Like this`, Xie et al. and
$E[x]. Y$ in it. A third, see [the guide. Again](a.md).

- An item. Of a
  list
- Another item.
    - An item in it, and what
      goes with it. Two.

```python
x = 1  # One. Two.
```

| A table. | It stays. |
|---|---|

!!! note
    A note that is
    broken.

    code = "within"  # the note. So it is text

Done.

    indented = "code. It stays"

<p>HTML. It stays
as it is.</p>

::: noise2same.Config
    options:
      members: false
"""
WRAPPED = """---
title: Front matter. It stays.
---
# A heading. It stays

One sentence.
Another, with `code. Like this`, Xie et al. and $E[x]. Y$ in it.
A third, see [the guide. Again](a.md).

- An item.
  Of a list
- Another item.
    - An item in it, and what goes with it.
      Two.

```python
x = 1  # One. Two.
```

| A table. | It stays. |
|---|---|

!!! note
    A note that is broken.

    code = "within"  # the note.
    So it is text

Done.

    indented = "code. It stays"

<p>HTML. It stays
as it is.</p>

::: noise2same.Config
    options:
      members: false
"""


def test_markdown_is_wrapped_at_its_sentences():
    assert MARKDOWN["fixed"](PAGE) == WRAPPED
    assert MARKDOWN["fixed"](WRAPPED) == WRAPPED


def test_markdown_that_is_wrapped_wrongly_is_found():
    assert MARKDOWN["problems"](WRAPPED) == []
    assert MARKDOWN["problems"]("One. Two.\n\nThree goes\non.\n") == [
        (1, "two sentences in a line"),
        (3, "a sentence goes on in the next line"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "It has 3.5 dB more than e.g. BM3D.",
        "See fig. 3 and eq. 6 of the paper.",
        "Formats (CZI, ND2, ...) are read.",
        "Is it? yes",
        "A line that is meant to end here  \nand to go on here.",
    ],
)
def test_markdown_that_is_one_sentence_stays(text):
    assert MARKDOWN["problems"](text) == []
