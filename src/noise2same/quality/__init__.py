"""How good a result is, with and without a clean image."""
