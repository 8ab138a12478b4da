"""Noise: what it is (`model`), measured on noisy images (`diagnose`), added to clean ones (`synthetic`)."""
