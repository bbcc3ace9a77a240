"""Draw the book's identity: logo, favicon, the four-ingredient picture and the social card.

Run ``python book/assets/identity.py`` after a change of colours; it rewrites the files beside it
and gives the same bytes every time. The mark is a lower-triangular coefficient matrix of four
tokens. Each lag has the colour of one ingredient, in the order in which they act: the impulse is
scaled on the diagonal, evolves, is read out, and is normalised.
"""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from coefdyn.plots import INGREDIENT_COLORS, INGREDIENT_COLORS_DARK, use_style

HERE = Path(__file__).resolve().parent
LAGS = ("scaling", "evolution", "readout", "normalizer")
INK, SOFT = "#1D2430", "#4D5A6B"


def mark(colors: dict[str, str], size: int = 64) -> str:
    """The logo mark as SVG text: cells (i, j) with j <= i, coloured by lag i - j."""
    step, cell = size / 4, size / 4 - 2.6
    cells = [
        f'<rect x="{j * step + 1.3:.1f}" y="{i * step + 1.3:.1f}" width="{cell:.1f}" '
        f'height="{cell:.1f}" rx="2.6" fill="{colors[LAGS[i - j]]}"/>'
        for i in range(4)
        for j in range(i + 1)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" role="img">'
    return "\n".join([head, "<title>Coefficient Dynamics</title>", *cells, "</svg>"]) + "\n"


def svg(*shapes: str) -> str:
    """A small picture that takes its colour from the text around it."""
    return '<svg viewBox="0 0 176 104" aria-hidden="true">' + "".join(shapes) + "</svg>"


def line(x1: float, y1: float, x2: float, y2: float, width: float = 1.2, extra: str = "") -> str:
    return (
        f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="currentColor" fill="none" '
        f'stroke-width="{width}" {extra}/>'
    )


def dot(x: float, y: float, radius: float, opacity: float = 1.0) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="currentColor" '
        f'opacity="{opacity:.2f}"/>'
    )


def scaling_picture() -> str:
    """One impulse: the key k_j (thin) and the same key times b_j (thick), zeros elsewhere."""
    zeros = [dot(18 + 22 * t, 84, 2.4, 0.45) for t in range(7) if t != 2]
    axis = line(8, 84, 168, 84, 1.0, 'opacity="0.45"')
    key = line(62, 84, 62, 18, 1.4, 'opacity="0.55" stroke-dasharray="3 3"')
    stem = line(62, 84, 62, 42, 3.2)
    labels = '<text x="72" y="24" opacity="0.75">k<tspan dy="4" font-size="10">j</tspan></text>'
    labels += (
        '<text x="72" y="52">b<tspan dy="4" font-size="10">j</tspan>'
        '<tspan dy="-4" dx="2">k</tspan><tspan dy="4" font-size="10">j</tspan></text>'
    )
    return svg(axis, *zeros, key, dot(62, 18, 3, 0.55), stem, dot(62, 42, 5), labels)


def evolution_picture() -> str:
    """The moving state: points 0.86^t turned by 0.55 rad a step."""
    centre = (80, 54)
    points = [
        (
            centre[0] + 82 * 0.86**t * math.cos(0.55 * t + 0.35),
            centre[1] - 52 * 0.86**t * math.sin(0.55 * t + 0.35),
        )
        for t in range(15)
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    trace = f'<path d="{path}" stroke="currentColor" fill="none" stroke-width="1.2" opacity="0.5"/>'
    dots = [dot(x, y, 5 * 0.93**t, max(0.3, 1 - 0.06 * t)) for t, (x, y) in enumerate(points)]
    axes = line(8, 54, 168, 54, 0.9, 'opacity="0.3"') + line(80, 6, 80, 100, 0.9, 'opacity="0.3"')
    label = '<text x="128" y="86">A<tspan dy="4" font-size="10">t</tspan></text>'
    return svg(axes, trace, *dots, label)


def readout_picture() -> str:
    """phi = exp with the part of the axis that it maps near zero."""
    xs = [8 + 2 * k for k in range(71)]
    path = "M" + "L".join(f"{x} {86 - 74 * math.exp((x - 148) / 28):.1f}" for x in xs)
    curve = f'<path d="{path}" stroke="currentColor" fill="none" stroke-width="3"/>'
    near_zero = (
        '<rect x="8" y="72" width="84" height="18" rx="3" fill="currentColor" opacity="0.16"/>'
    )
    axes = line(8, 90, 168, 90, 1.0, 'opacity="0.45"') + line(104, 8, 104, 90, 0.9, 'opacity="0.3"')
    return svg(near_zero, axes, curve, '<text x="108" y="24">φ</text>')


def normalizer_picture() -> str:
    """A row of coefficients (outlines) and the same row divided by eta_i (filled)."""
    heights = [22, 60, 14, 34, 78, 46, 28]
    bars = []
    for t, height in enumerate(heights):
        x = 12 + 22 * t
        bars.append(
            f'<rect x="{x}" y="{90 - height}" width="15" height="{height}" rx="2" fill="none" '
            'stroke="currentColor" stroke-width="1.1" opacity="0.5"/>'
        )
        bars.append(
            f'<rect x="{x}" y="{90 - 0.45 * height:.1f}" width="15" height="{0.45 * height:.1f}" '
            'rx="2" fill="currentColor"/>'
        )
    label = '<text x="14" y="24">/ η<tspan dy="4" font-size="10">i</tspan></text>'
    return svg(line(8, 90, 168, 90, 1.0, 'opacity="0.45"'), *bars, label)


CARDS = (
    (
        "scaling",
        "Token <i>j</i> strikes once: its key, times <i>b<sub>j</sub></i>.",
        scaling_picture,
    ),
    (
        "evolution",
        "The struck state then moves by <i>A<sub>t</sub></i>, step after step.",
        evolution_picture,
    ),
    (
        "readout",
        "Query <i>i</i> meets the state; <i>φ</i> turns the score into a coefficient.",
        readout_picture,
    ),
    (
        "normalizer",
        "Row <i>i</i> is divided by <i>η<sub>i</sub></i> before it mixes the values.",
        normalizer_picture,
    ),
)


def ingredients_html() -> str:
    """The four pictures with their sentences, in the order in which the ingredients act."""
    items = [
        f'<li class="cd-{name}">{draw()}<p class="cd-name cd-{name}">{name.capitalize()}</p>'
        f"<p>{sentence}</p></li>"
        for name, sentence, draw in CARDS
    ]
    return "\n".join(['<ul class="cd-ingredients">', *items, "</ul>"]) + "\n"


def social_card(path: Path) -> None:
    """A 1200 x 630 picture for links: the mark, the name and the equation."""
    use_style()
    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="white", layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1200), ylim=(630, 0))
    axes.axis("off")
    step = 92
    for i in range(4):
        for j in range(i + 1):
            color = INGREDIENT_COLORS[LAGS[i - j]]
            box = FancyBboxPatch(
                (92 + j * step, 131 + i * step), step - 16, step - 16,
                boxstyle="round,pad=0,rounding_size=13", facecolor=color, edgecolor="none",
            )  # fmt: skip
            axes.add_patch(box)
    axes.text(540, 200, "Coefficient Dynamics", fontsize=36, weight="bold", color=INK)
    claim = "One equation behind attention and its rivals"
    axes.text(540, 262, claim, fontsize=19, color=SOFT)
    _equation(figure, axes, x=540, y=400, size=26)
    axes.text(540, 512, "an interactive book", fontsize=19, color=SOFT)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def _equation(figure: Figure, axes, x: float, y: float, size: float) -> None:
    """Write the output with each ingredient in its colour, piece after piece."""
    pieces = [
        (r"$y_i\,=$", INK),
        (r"$\frac{1}{\eta_i}$", INGREDIENT_COLORS["normalizer"]),
        (r"$\sum_{j\leq i}$", INK),
        (r"$\varphi$", INGREDIENT_COLORS["readout"]),
        (r"$(q_i^{\top}$", INK),
        (r"$A_i\,\cdots\,A_{j+1}$", INGREDIENT_COLORS["evolution"]),
        (r"$b_j$", INGREDIENT_COLORS["scaling"]),
        (r"$k_j)\,v_j$", INK),
    ]
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text, color in pieces:
        artist = axes.text(x, y, text, fontsize=size, color=color)
        x += artist.get_window_extent(renderer).width + 7


def main() -> None:
    (HERE / "logo.svg").write_text(mark(dict(INGREDIENT_COLORS)), encoding="utf-8")
    (HERE / "logo-dark.svg").write_text(mark(dict(INGREDIENT_COLORS_DARK)), encoding="utf-8")
    (HERE / "favicon.svg").write_text(mark(dict(INGREDIENT_COLORS), size=32), encoding="utf-8")
    (HERE / "ingredients.html").write_text(ingredients_html(), encoding="utf-8")
    social_card(HERE / "social-card.png")


if __name__ == "__main__":
    main()
