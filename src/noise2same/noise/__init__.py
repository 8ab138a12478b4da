"""Noise: added to clean images (`synthesise`, `simulate`), measured on noisy ones (`estimate`, `diagnose`)."""
