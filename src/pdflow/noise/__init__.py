"""Noise: models that make it, and the estimate of its level."""
