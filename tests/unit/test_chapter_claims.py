"""What a chapter says of a linked setting of the explorer is so.

A link is found by the words it underlines, so its address is tested as it stands on the page.
"""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path

import torch
from unit.test_chapter_links import settings_of

from coefdyn import CoefficientDynamics
from coefdyn.analysis import observed_class, spectrum, stability
from coefdyn.widgets.settings import validate
from coefdyn.widgets.tokens import build_dynamics

BOOK = Path(__file__).resolve().parents[2] / "book"
LINK = re.compile(r'<a href="#cd\?([^"]*)">(.*?)</a>', re.DOTALL)
#: Rounding of the plane's few operations in float64.
EXACT = 1e-9


def linked(chapter: str, words: str, **changes: object) -> CoefficientDynamics:
    """The dynamics that the link below ``words`` sets, some settings changed.

    As on the page, a link starts from the tokens of the chapter's explorer, its first one.
    """
    text = (BOOK / f"{chapter}.md").read_text("utf-8")
    (query,) = [html.unescape(query) for query, label in LINK.findall(text) if label == words]
    return build_dynamics(validate({**home(text), **settings_of(query), **changes}))


def home(text: str) -> dict[str, object]:
    """Tokens and length with which the first explorer of a chapter starts."""
    call = text[text.index("\nExplorer(") + 1 :]
    (statement, *_) = ast.parse(call[: call.index("```")]).body
    given = {word.arg: word.value for word in statement.value.keywords}
    return {key: ast.literal_eval(given[key]) for key in ("tokens", "length") if key in given}


def weights(dynamics: CoefficientDynamics) -> torch.Tensor:
    return dynamics.coefficients(normalized=True)


def largest(dynamics: CoefficientDynamics) -> list[float]:
    """The largest weight of each row, the largest row first."""
    return weights(dynamics).abs().amax(-1).sort(descending=True).values.tolist()


def paths(dynamics: CoefficientDynamics) -> list[torch.Tensor]:
    """The states of every token but the last, which has one state only."""
    return [dynamics.states(j) for j in range(dynamics.length - 1)]


def keeps_its_line(path: torch.Tensor) -> bool:
    across = path[:, 0] * path[0, 1] - path[:, 1] * path[0, 0]
    return bool(across.abs().max() < EXACT)


def keeps_its_length(path: torch.Tensor) -> bool:
    lengths = path.norm(dim=-1)
    return bool((lengths - lengths[0]).abs().max() < EXACT)


def test_one_decay_for_both_channels_keeps_a_key_on_its_line_and_two_bend_it() -> None:
    chapter = "architectures/gla"
    one = paths(linked(chapter, "Give both channels one decay"))
    two = paths(linked(chapter, "Spread the decays fully"))
    assert all(map(keeps_its_line, one))
    assert not any(map(keeps_its_line, two))
    assert stability(linked(chapter, "Raise the decay above 1")).horizon_tokens < float("inf")


def test_a_repeated_word_takes_out_what_points_along_its_key_and_no_more() -> None:
    dynamics = linked("architectures/deltanet", r"Set $\beta$ to 1")
    keys = torch.nn.functional.normalize(dynamics.k, dim=-1)
    same = (keys @ keys.T > 1 - EXACT).triu(1).nonzero().tolist()
    left = torch.stack([dynamics.states(j)[i - j] for j, i in same])
    along = (left * keys[[i for _, i in same]]).sum(-1)
    assert along.abs().max() < EXACT
    assert left.norm(dim=-1).max() > 0.1
    turned = linked("architectures/deltanet", r"Turn the direction away from the key by 90°")
    after = turned.states(0)[1]
    assert abs(after[0] * turned.k[1, 1] - after[1] * turned.k[1, 0]) < EXACT


def test_reflections_keep_all_lengths() -> None:
    mirror = linked("architectures/deltanet", r"Set $\beta$ to 2")
    lossless = linked("architectures/gated_deltanet", r"Set $\beta$ to 2 and the decay to 1")
    swing = linked("foundations/coefficient_dynamics", "Reflect at every step")
    for dynamics in (mirror, lossless, swing):
        assert all(map(keeps_its_length, paths(dynamics)))
    two_points = swing.states(0)
    torch.testing.assert_close(two_points[2:], two_points[:-2])


def test_states_shrink_under_an_eigenvalue_above_one() -> None:
    dynamics = linked("architectures/gated_deltanet", "Raise the decay to 1.1")
    assert spectrum(dynamics).eigenvalues.abs().max() > 1
    assert stability(dynamics).growth_rate < 0


def test_without_a_floor_one_row_explodes() -> None:
    chapter = "architectures/mlstm"
    assert largest(linked(chapter, "Take the floor away"))[0] > 1000
    assert largest(linked(chapter, "Take the floor away", normalizer="floored"))[0] < 3
    loud = linked(chapter, "Write six times as strongly")
    quiet = linked(chapter, "Write six times as strongly", scale=1)
    changed = (weights(loud) - weights(quiet)).abs().amax(-1) > EXACT
    assert torch.equal(changed, quiet.coefficients().sum(-1).abs() < 1)


def test_a_row_sum_of_both_signs_explodes_in_one_row() -> None:
    softmax = linked("architectures/softmax_attention", "Read the keys with the identity")
    divided = linked("architectures/normalized_attention", "Divide by the row sum instead")
    for dynamics in (softmax, divided):
        first, second, *_ = largest(dynamics)
        assert first > 1000 > 100 > second
        assert dynamics.coefficients().min() < 0 < dynamics.coefficients().max()


def test_a_decaying_key_under_exp_settles_at_one() -> None:
    faded = linked("architectures/softmax_attention", "Give the keys a decay of 0.7")
    assert abs(faded.coefficients()[-1, 0] - 1) < 1e-3


def test_relu_features_have_zeros_and_do_not_feel_the_scale() -> None:
    chapter, causal = "architectures/linear_attention", torch.ones(32, 32).tril().bool()
    relu = linked(chapter, r"Take $\psi = $ ReLU")
    assert (relu.coefficients()[causal] == 0).any()
    for readout, moves in (("feature_elu", True), ("feature_relu", False)):
        loud, plain = (
            weights(linked(chapter, "Scale the keys up", readout=readout, **scale))
            for scale in ({}, {"scale": 1})
        )
        assert bool((loud - plain).abs().max() > EXACT) == moves


def test_four_designs_show_the_four_classes() -> None:
    named = {
        "exponential, row sum": "convex",
        "ReLU, no normalizer": "conical",
        "identity, row sum": "affine",
        "identity, no normalizer": "linear",
    }
    for words, kind in named.items():
        found = weights(linked("foundations/combinations", words))
        assert observed_class(found).value == kind
