"""How fast a run was, by its history."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

STRETCH = 0.1
"""Share of a run's time that its fastest stretch takes at least."""


def fastest(history: Sequence[Mapping[str, float]]) -> float:
    """Steps a second in the fastest tenth of a run; 0 if its history has no two points that are so far apart.

    Examples
    --------
    >>> fastest([{"step": 1, "seconds": 1}, {"step": 21, "seconds": 2}, {"step": 31, "seconds": 10}])
    20.0
    """
    points = [(point["step"], point["seconds"]) for point in history]
    least = STRETCH * points[-1][1] if points else 0.0
    speeds = []
    for number, (step, seconds) in enumerate(points):
        later = next((point for point in points[number + 1 :] if point[1] - seconds >= least), None)
        if later is not None and later[1] > seconds:
            speeds.append((later[0] - step) / (later[1] - seconds))
    return max(speeds, default=0.0)


class Occasionally:
    """Does something every so many seconds, and more seldom where it would take too much of the time.

    Parameters
    ----------
    seconds : float
        From one time to the next, at least.
    share : float
        Of all time that it may take.
    """

    def __init__(self, seconds: float, share: float = 0.2) -> None:
        self._seconds, self._share = seconds, share
        self._next = time.monotonic() + seconds

    def __call__(self, action: Callable[[], object]) -> None:
        """Do it, if it is time."""
        start = time.monotonic()
        if start < self._next:
            return
        action()
        end = time.monotonic()
        self._next = end + max(self._seconds, (end - start) * (1 / self._share - 1))
