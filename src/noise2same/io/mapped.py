"""A new file of plain pixels as an array to fill."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


class Filled(np.memmap[Any, Any]):
    """A mapped file whose pages leave the memory of this process when they are written; its views are the same.

    They are the system's then, which brings them to disk. Otherwise, the process would come to hold the whole file.
    """

    def __setitem__(self, key: Any, values: Any) -> None:
        super().__setitem__(key, values)
        self.release()

    def release(self) -> None:
        """Give back the pages that were read or written since."""
        file: Any = self._mmap  # type: ignore[attr-defined] # not in numpy's types; None for a copy
        if file is not None and hasattr(mmap, "MADV_DONTNEED"):  # Windows takes them itself when memory is short
            file.madvise(mmap.MADV_DONTNEED)
