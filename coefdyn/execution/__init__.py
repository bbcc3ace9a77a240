"""HOW coefficient dynamics are computed: one entry (``apply.py``), one visible dispatch table."""
