"""The training loop, when it ends, and what it reports."""
