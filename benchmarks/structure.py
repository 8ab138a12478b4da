"""Size and shape of the source: lines, numeric constants, long functions, and the modules that one image passes.

`--source` names another checkout, to compare with; it is run in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

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


def trees(source: Path) -> Iterator[tuple[int, ast.Module]]:
    """Number of lines and syntax tree of each module."""
    for path in sorted((source / "src").rglob("*.py")):
        text = path.read_text()
        yield text.count("\n"), ast.parse(text)


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
    found = list(trees(source))
    return {
        "lines": sum(lines for lines, _ in found),
        "files": len(found),
        "numeric constants": sum(constants(tree) for _, tree in found),
        f"functions over {LONG} lines": sum(long_functions(tree) for _, tree in found),
        "modules one image passes": walk(source),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=HERE, help="checkout to measure")
    print(json.dumps(measure(parser.parse_args().source.resolve()), indent=1))
