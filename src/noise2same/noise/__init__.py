"""Noise: added to clean images (`synthesise`) and measured on noisy ones (`estimate`)."""
