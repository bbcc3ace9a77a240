"""Changing heads of a running model in terms of their design, and what that does to its outputs."""
