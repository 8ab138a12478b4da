"""The exceptions that a user's own input or settings can cause."""


class InputError(ValueError):
    """Bad input or usage: one sentence saying what was wrong, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


class UnknownAxes(InputError):
    """An image does not say what its axes are, and more than one reading is sensible."""

    def __init__(self, message: str, shape: tuple[int, ...]) -> None:
        super().__init__(message)
        self.shape = shape


class NoSpace(InputError):
    """The disk is full, which no other file would change."""


class Diverged(InputError):
    """Training came to NaN or infinite numbers and ended. What was trained has the last weights that were good."""


class Cancelled(KeyboardInterrupt):
    """A listener ended the work, as Ctrl-C would: nothing that is half done is left behind."""
