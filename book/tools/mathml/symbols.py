"""TeX that the book may use: letters, signs and their kinds. Anything else is an error."""

from __future__ import annotations

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "zeta": "ζ", "eta": "η", "theta": "θ",
    "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ",
    "sigma": "σ", "tau": "τ", "upsilon": "υ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "epsilon": "ϵ", "varepsilon": "ε", "phi": "ϕ", "varphi": "φ", "vartheta": "ϑ", "varrho": "ϱ",
    "varsigma": "ς", "ell": "ℓ", "imath": "ı", "jmath": "ȷ",
}  # fmt: skip
"""Letters that are set in italics."""

UPRIGHT = {
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ",
    "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "top": "⊤", "bot": "⊥", "infty": "∞",
    "partial": "∂", "nabla": "∇", "emptyset": "∅", "prime": "′", "dagger": "†", "star": "⋆",
    "checkmark": "✓", "Re": "ℜ", "Im": "ℑ", "aleph": "ℵ", "hbar": "ℏ", "forall": "∀", "exists": "∃",
}  # fmt: skip
"""Letters and signs that are set upright and take no space of their own."""

RELATIONS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "ll": "≪", "gg": "≫",
    "approx": "≈", "equiv": "≡", "sim": "∼", "simeq": "≃", "cong": "≅", "propto": "∝", "in": "∈",
    "notin": "∉", "ni": "∋", "subset": "⊂", "subseteq": "⊆", "supset": "⊃", "to": "→", "perp": "⊥",
    "rightarrow": "→", "leftarrow": "←", "longrightarrow": "⟶", "mapsto": "↦", "iff": "⟺",
    "Rightarrow": "⇒", "Leftrightarrow": "⇔", "implies": "⟹", "mid": "∣", "parallel": "∥",
    "succeq": "⪰", "preceq": "⪯", "succ": "≻", "prec": "≺", "leftrightarrow": "↔", "gets": "←",
    "lesssim": "≲", "gtrsim": "≳", "coloneqq": "≔",
}  # fmt: skip

BINARY = {
    "times": "×", "cdot": "⋅", "pm": "±", "mp": "∓", "otimes": "⊗", "oplus": "⊕", "odot": "⊙",
    "setminus": "∖", "cup": "∪", "cap": "∩", "circ": "∘", "ast": "∗", "wedge": "∧", "vee": "∨",
    "div": "÷", "bullet": "∙",
}  # fmt: skip

LARGE = {"sum": "∑", "prod": "∏", "int": "∫", "bigcup": "⋃", "bigcap": "⋂", "bigotimes": "⨂"}
"""Signs that grow in a displayed equation and carry limits."""

FUNCTIONS = (
    "exp", "log", "ln", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arg", "deg", "det", "dim",
    "gcd", "hom", "inf", "sup", "ker", "lim", "liminf", "limsup", "max", "min", "Pr",
)  # fmt: skip
WITH_LIMITS = ("det", "gcd", "inf", "sup", "lim", "liminf", "limsup", "max", "min", "Pr")
SPELT = {"liminf": "lim inf", "limsup": "lim sup"}

DOTS = {"dots": "…", "ldots": "…", "cdots": "⋯", "vdots": "⋮", "ddots": "⋱"}

SPACES = {
    ",": 0.167, ":": 0.222, ">": 0.222, ";": 0.278, "!": -0.167, " ": 0.25, "quad": 1.0,
    "qquad": 2.0, "enspace": 0.5, "thinspace": 0.167,
}  # fmt: skip
"""Widths in em."""

DELIMITERS = {
    "(": "(", ")": ")", "[": "[", "]": "]", "|": "|", "/": "/", "lbrace": "{", "rbrace": "}",
    "{": "{", "}": "}", "vert": "|", "lvert": "|", "rvert": "|", "Vert": "‖", "lVert": "‖",
    "rVert": "‖", "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈",
    "rceil": "⌉", ".": "",
}  # fmt: skip
"""By name without the backslash; ``\\|`` is added where names are read."""

BARS = "|‖"
OPENING = "([{⟨⌊⌈"
CLOSING = ")]}⟩⌋⌉"

ACCENTS = {"bar": "¯", "hat": "^", "tilde": "~", "dot": "˙", "ddot": "¨", "vec": "→", "check": "ˇ"}
WIDE = {"overline": ("mover", "¯"), "widehat": ("mover", "^"), "widetilde": ("mover", "~"),
        "underline": ("munder", "_"), "underbrace": ("munder", "⏟"),
        "overbrace": ("mover", "⏞")}  # fmt: skip

SIZES = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}
"""Heights in em of delimiters that are set larger by hand."""

MATRICES = {"matrix": ("", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]"), "cases": ("{", ""),
            "vmatrix": ("|", "|")}  # fmt: skip
ALIGNED = ("aligned", "align", "align*", "split", "alignedat")
GATHERED = ("gathered", "gather", "gather*", "equation", "equation*")

_SCRIPT_EXCEPTIONS = {"B": "ℬ", "E": "ℰ", "F": "ℱ", "H": "ℋ", "I": "ℐ", "L": "ℒ", "M": "ℳ",
                      "R": "ℛ", "e": "ℯ", "g": "ℊ", "o": "ℴ"}  # fmt: skip
_DOUBLE_EXCEPTIONS = {"C": "ℂ", "H": "ℍ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ"}


def _alphabet(capital: int, small: int, digit: int = 0) -> dict[str, str]:
    """The letters of one of Unicode's mathematical alphabets."""
    letters = {chr(65 + i): chr(capital + i) for i in range(26)}
    letters |= {chr(97 + i): chr(small + i) for i in range(26)}
    return letters | ({chr(48 + i): chr(digit + i) for i in range(10)} if digit else {})


ALPHABETS = {
    "mathcal": _alphabet(0x1D49C, 0x1D4B6) | _SCRIPT_EXCEPTIONS,
    "mathbb": _alphabet(0x1D538, 0x1D552, 0x1D7D8) | _DOUBLE_EXCEPTIONS,
    "mathbf": _alphabet(0x1D400, 0x1D41A, 0x1D7CE),
    "boldsymbol": _alphabet(0x1D468, 0x1D482, 0x1D7CE),
}
