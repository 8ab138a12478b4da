"""The one exception a user's own input can cause."""


class InputError(ValueError):
    """Bad input or usage: one sentence saying what was wrong, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """
