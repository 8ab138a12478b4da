"""Run the notebooks of the documentation and keep what they show: python tools/run_notebooks.py [NOTEBOOK...]."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def run(notebook: Any, parameters: str | None = None) -> Any:
    """Run all cells but the one that installs the package, and return the notebook with its outputs.

    Parameters
    ----------
    notebook : NotebookNode
        As nbformat reads it.
    parameters : str, optional
        What to run in place of the cell with the parameters.
    """
    cells = notebook.cells
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata["kept"] = cell.source
        if "install" in tags:
            cell.source = ""
        elif "parameters" in tags and parameters is not None:
            cell.source = parameters
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # of tqdm, which asks for ipywidgets that nobody needs
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    for cell in cells:
        cell.source = cell.metadata.pop("kept")
        cell.metadata.pop("execution", None)
    return notebook


def main() -> None:
    """Run those that are named, or all."""
    for path in map(Path, sys.argv[1:] or sorted(NOTEBOOKS.glob("*.ipynb"))):
        print(path)
        nbformat.write(run(nbformat.read(path, 4)), path)


if __name__ == "__main__":
    main()
