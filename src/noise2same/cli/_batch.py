"""What is said of a job of many images: a line as each is done, a summary, and the exit code."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noise2same.cli._options import BatchOptions
from noise2same.cli._terminal import STYLES, DenoisingBar, console, print_json, tell, tell_error, tell_verdict
from noise2same.files import left_behind, temporary_name

if TYPE_CHECKING:
    from noise2same.pipeline import Result

MOST_NAMED = 20
"""Images that failed which are named again at the end; all are named when they fail, and by --json."""


def warn_of_leftovers(outputs: Sequence[Path]) -> None:
    """Name what killed runs have left in the folders of the outputs, but for what this run replaces or resumes."""
    from noise2same.prediction.job import folder_of, left_over

    own = {name(output) for output in outputs for name in (Path, temporary_name, folder_of)}
    for folder in sorted({output.parent for output in outputs}):
        for path in left_over(folder):
            if path not in own:
                tell(f"{path} is left from another job that was stopped: resume that with --resume, or delete it.")
    for folder in sorted({output.parent for output in outputs}):
        found = [path for path in left_behind(folder) if path not in own]
        if found:
            names = ", ".join(path.name for path in found[:3]) + (f" and {len(found) - 3} more" * (len(found) > 3))
            told = f"{folder} has what runs left that were killed: {names}; delete it if you do not need it."
            tell(told, "Warning: ", "yellow")


class Shown:
    """Listens to the results of a job and shows them (`on_result`).

    Parameters
    ----------
    several : bool
        Whether results go to a folder.
    bar : DenoisingBar
        Which counts them.
    options : BatchOptions
        How much to say, and which verdict makes the exit code 1.
    as_json : bool
        Whether the figures of each image of a folder go to stdout, a line each.
    """

    def __init__(self, several: bool, bar: DenoisingBar, options: BatchOptions, *, as_json: bool) -> None:
        self.several = several
        self._bar, self._options, self._as_json = bar, options, as_json
        self._failed: list[str] = []
        self._words: Counter[str] = Counter()
        self._done = self._skipped = 0
        self._began = time.monotonic()

    def __call__(self, result: Result) -> None:
        """Say in a line or two what came out for an image, and go on to the next one."""
        count = self._bar.next()
        if self.several and self._as_json:
            print_json(result.figures(), line=True)
        if result.error:
            self._failed.append(result.error)
            tell_error(f"{count}{result.error}")
            return
        self._done += 1
        self._skipped += result.skipped
        self._words.update([result.word] if result.word else [])
        line = f"{count}{result.item.name} -> {result.item.goes_to}"
        if result.skipped:
            if self._options.verbose:
                tell(f"{line}, as it was there already")
            return
        short = bool(count) and not self._options.verbose
        self._tell_result(f"{line}: " if short and result.word else line, result.word if short else "")
        if not short and result.verdict is not None:
            tell_verdict(result.verdict)
            if result.item.report is not None:
                tell(f"Report written to {result.item.report}")

    def _tell_result(self, line: str, word: str | None) -> None:
        from rich.text import Text

        console.print(Text.assemble(line, (word or "", STYLES.get(word or "", ""))))

    def end(self, training: dict[str, Any]) -> int:
        """Sum up, and return the exit code: 0 done, 1 done in part or judged too bad, 2 nothing done."""
        total = self._done + len(self._failed)
        bad = self._too_bad()
        if self.several:
            if self._as_json:
                short = {name: value for name, value in training.items() if name != "history"}  # 50 points
                print_json({"summary": self._summary(), "training": short}, line=True)
            tell(self._sentence(total))
        for error in self._failed[:MOST_NAMED]:
            tell_error(error)
        if len(self._failed) > MOST_NAMED:
            tell_error(f"{len(self._failed) - MOST_NAMED} more failed.")
        if bad:
            tell_error(f"The verdict on {bad} of {total} results is '{self._options.word}' or worse (--fail-on).")
        if self._failed and not self._done:
            return 2
        return 1 if self._failed or bad else 0

    def _too_bad(self) -> int:
        """How many results have the verdict that --fail-on names, or a worse one."""
        words = list(STYLES)
        worse = words[words.index(self._options.word) :] if self._options.word else []
        return sum(self._words[word] for word in worse)

    def _summary(self) -> dict[str, Any]:
        return {
            "done": self._done - self._skipped,
            "skipped": self._skipped,
            "failed": len(self._failed),
            "verdicts": dict(self._words),
            "seconds": round(time.monotonic() - self._began, 1),
        }

    def _sentence(self, total: int) -> str:
        """Such as "200 images in 12.3 min: 198 done (150 trust, 48 check), 2 failed."."""
        seconds = time.monotonic() - self._began
        took = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
        words = ", ".join(f"{self._words[word]} {word}" for word in STYLES if self._words[word])
        parts = [f"{self._done} done{f' ({words})' * bool(words)}"]
        if self._skipped:
            parts.append(f"{self._skipped} of these were there already")
        if self._failed:
            parts.append(f"{len(self._failed)} failed")
        return f"{total} image{'s' * (total > 1)} in {took}: {', '.join(parts)}."
