"""Commands that write what a page shows, a short script each, named in ``SCRIPTS``.

``python -m coefdyn.lab NAME`` starts the function ``main`` of a script with the arguments after its
name; it returns the exit status.
"""

__all__ = ["SCRIPTS"]

#: a command -> the module of this package that it starts, and what it does
SCRIPTS = {
    "capabilities": ("capabilities", "what each row can do on each task; checks every entry"),
    "step-times": ("step_times", "time per token of the scoreboard's rows, a step and a pass"),
    "repeat": ("repeat", "train some kept runs once more and compare"),
    "throughput": ("throughput", "core-seconds of one run beside plain torch"),
    "lens-models": ("lens_models", "train the small models that the lens looks into"),
    "lens-heads": ("lens_heads", "keep heads of SmolLM2-135M (see `make lens`)"),
    "lens-ablation": (
        "lens_ablation",
        "take heads out of the small models that the lens looks into",
    ),
    "lens-plan": (
        "lens_plan",
        "cut key-value heads to a sink and a window, in several orders; measure",
    ),
    "lens-peers": (
        "lens_peers",
        "compare a plan with kvpress's methods at equal bytes (see `make lens-peers`)",
    ),
}
