"""The memory that a model has of its past: its bytes, and which heads can lose it at what cost."""
