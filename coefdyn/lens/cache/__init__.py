"""What a model keeps of its past: its bytes, and which heads can lose it at what cost."""
