"""Damaged and lying files: refused in a sentence or read, without a traceback, a crash, a hang or much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import fuzzing

PER_PROCESS = 250
"""Files that one child opens."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's limits")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    fuzzing.make_seeds(folder / "seeds")
    fuzzing.lies(folder / "lies")
    return folder


def outcomes(work, first, count):
    """What happened with each of the files, by number; a child that dies is started again after the one it died of."""
    found = {}
    following, end = first, first + count
    while following < end or not count:
        many = min(PER_PROCESS, end - following)
        command = [sys.executable, fuzzing.__file__, str(work), str(following), str(many)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 12 * max(many, 20), check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for row in rows:
            died = f"BAD: exit code {done.returncode} {done.stderr[-600:]}"
            found[row["number"]] = (row["file"], row["outcome"] or died)
        assert rows, done.stderr
        following = rows[-1]["number"] + 1
        if not count:
            break
    return found


def check(found):
    bad = {number: what for number, what in found.items() if what[1].startswith("BAD")}
    counts = Counter(outcome.split()[0] for _, outcome in found.values())
    print(len(found), dict(counts))
    assert not bad, "\n".join(f"{number} {name}: {outcome}" for number, (name, outcome) in sorted(bad.items())[:20])
    return counts


def test_tiny_files_that_claim_much(work):
    found = outcomes(work, 0, 0)
    assert len(found) == len(list((work / "lies").iterdir())) >= 10
    check(found)


def test_damaged_files(work):
    counts = check(outcomes(work, 0, 300))
    assert counts["refused"] > 50 and counts["read"] > 30


@pytest.mark.long
def test_many_damaged_files(work):
    assert check(outcomes(work, 1000, 5000)).total() == 5000
