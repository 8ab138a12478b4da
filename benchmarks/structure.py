"""Size and shape of the source: lines, numeric constants, long functions, and the modules that one image passes.

`--before` names another checkout to compare with.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import record

HERE = Path(__file__).parents[1]
LONG = 60
"""Lines from which on a function is called long."""
WALK = """
import sys, threading
seen = set()
def look(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and frame.f_code.co_name != "<module>" and name.startswith("noise2same"):
        seen.add(name)
threading.setprofile(look)
sys.setprofile(look)
from noise2same.{module} import main
sys.argv = ["noise2same", "denoise", "noisy.tif", "-o", "clean.tif", "--steps", "2"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.setprofile(None)
print(len(seen), *sorted(seen))
"""


SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def modules(source: Path) -> Iterator[tuple[str, ast.Module]]:
    """Text and syntax tree of each module."""
    for path in sorted((source / "src").rglob("*.py")):
        text = path.read_text()
        yield text, ast.parse(text)


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines without docstrings, comments and blank ones."""
    words = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    docstrings = {line for node in words for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in SKIPPED]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docstrings)


def constants(tree: ast.Module) -> int:
    """Names in capitals at module level whose value holds a number."""
    found = 0
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        values = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        if not any(type(value) in (int, float) for value in values):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        found += sum(name.id.strip("_").isupper() for name in names)
    return found


def long_functions(tree: ast.Module) -> int:
    """Functions with more than `LONG` lines, docstring not counted."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= (first.end_lineno or 0) - first.lineno + 1
            found += lines > LONG
    return found


def walk(source: Path) -> int:
    """Modules with a function that is called while the command line denoises one TIFF."""
    module = "cli.main" if (source / "src/noise2same/cli").exists() else "apps.cli"
    with tempfile.TemporaryDirectory() as folder:
        noisy = "numpy.random.default_rng(0).normal(99, 9, (64, 64)).astype('f4')"
        make = f"import numpy, tifffile; tifffile.imwrite('noisy.tif', {noisy})"
        environment = {"PYTHONPATH": str(source / "src"), "PATH": "/usr/bin:/bin", "HOME": folder}
        for code in (make, WALK.replace("{module}", module)):
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def measure(source: Path) -> dict[str, int]:
    """All figures of a checkout."""
    found = list(modules(source))
    return {
        "lines": sum(text.count("\n") for text, _ in found),
        "lines of code, without docstrings and comments": sum(code_lines(text, tree) for text, tree in found),
        "files": len(found),
        "numeric constants of modules": sum(constants(tree) for _, tree in found),
        f"functions over {LONG} lines, docstrings not counted": sum(long_functions(tree) for _, tree in found),
        "modules with a function that one image calls": walk(source),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout to compare with")
    before = parser.parse_args().before
    after, earlier = measure(HERE), {} if before is None else measure(before.resolve())
    rows: list[dict[str, Any]] = [
        {"what": what, "before": earlier.get(what), "after": value} for what, value in after.items()
    ]
    record.write("structure", rows, "# The source in figures")


if __name__ == "__main__":
    main()
