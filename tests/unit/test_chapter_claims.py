"""Statements of a chapter about a linked setting of the explorer are true.

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
from coefdyn.widgets import Explorer

BOOK = Path(__file__).resolve().parents[2] / "book"
LINK = re.compile(r'<a\s+href="#cd\?([^"]*)">(.*?)</a>', re.DOTALL)
#: Rounding of the plane's few operations in float64.
EXACT = 1e-9


def linked(chapter: str, words: str, **changes: object) -> CoefficientDynamics:
    """The dynamics that the link below ``words`` sets, some settings changed.

    As on the page, a link starts from the tokens of the chapter's explorer, its first one.
    """
    text = (BOOK / f"{chapter}.md").read_text("utf-8")
    (query,) = [html.unescape(query) for query, label in LINK.findall(text) if label == words]
    return Explorer(**{**home(text), **settings_of(query), **changes}).dynamics()


def opening(chapter: str, **changes: object) -> CoefficientDynamics:
    """The dynamics with which the first explorer of a chapter starts, some settings changed."""
    named = given((BOOK / f"{chapter}.md").read_text("utf-8"))
    return Explorer(**{**named, **changes}).dynamics()


def home(text: str) -> dict[str, object]:
    """Tokens and length with which the first explorer of a chapter starts."""
    return {key: value for key, value in given(text).items() if key in ("tokens", "length")}


def given(text: str) -> dict[str, object]:
    """Arguments of a chapter's first explorer, without its question."""
    call = text[text.index("\nExplorer(") + 1 :]
    (statement, *_) = ast.parse(call[: call.index("```")]).body
    words = [word for word in statement.value.keywords if word.arg != "predict"]
    return {word.arg: ast.literal_eval(word.value) for word in words}


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


def test_a_sentence_read_with_the_identity_has_rank_two_and_under_exp_more() -> None:
    chapter = "principles/principle_1"
    words = "Read\n  the same scores through exp."
    for dynamics, rank in ((opening(chapter), 2), (linked(chapter, words), 7)):
        scores = dynamics.readout(dynamics.q @ dynamics.k.T * dynamics.k.shape[-1] ** -0.5)
        assert torch.linalg.matrix_rank(scores) == rank


def test_a_query_across_a_key_silences_every_word_stored_under_it() -> None:
    chapter = "principles/principle_2_2"
    for turned in ({}, {"points": {"q12": [0.0, 1.4]}}):
        marked = opening(chapter, **turned).coefficients().abs() <= 0.05
        assert marked[:, 0].all()
        assert marked[-1].sum() == (5 if turned else 1)
    silenced = linked(chapter, "The\n  sentence through ReLU").coefficients()
    assert (silenced[-1] == 0).sum() > 6


def test_keys_that_stay_are_read_evenly_and_keys_that_grow_more_and_more() -> None:
    chapter, asks = "principles/principle_6", [3, 4, 9, 10, 11, 12]
    stays, grows = (
        opening(chapter, normalizer="one", decay=a).coefficients()[asks, 3] for a in (1.0, 1.05)
    )
    assert (stays == stays[0]).all()
    assert (grows.diff() > 0).all()
    divided = linked(chapter, "ReLU\n  divided by $1.05^i$")
    torch.testing.assert_close(weights(divided)[asks, 3], weights(divided)[3, 3].expand(6))


def test_mamba2_at_one_stores_nothing_and_untied_it_keeps_all() -> None:
    chapter = "second_view/spectra"
    assert (opening(chapter, decay=1.0).coefficients() == 0).all()
    untied = linked(chapter, "Untie\n  the two")
    black = untied.coefficients()[:, 3]
    assert black.unique().tolist() == [0.0, 1.0]
    assert torch.equal(black[3:] == 1, (untied.q[3:] * untied.k[3]).sum(-1) > 0)


def test_a_word_that_stores_something_is_mirrored() -> None:
    mirror = linked("second_view/spectra", r"DeltaNet with $\beta = 2$")
    found = spectrum(mirror).eigenvalues.real.amin(-1)
    stores = (mirror.k != 0).any(-1)
    assert stores[11]
    torch.testing.assert_close(found, 1.0 - 2.0 * stores, check_dtype=False)


def test_of_normalized_attention_only_the_divisor_moves() -> None:
    dynamics = opening("second_view/dynamical_systems")
    assert (spectrum(dynamics).eigenvalues == 1).all()
    black, divided = dynamics.coefficients()[:, 3], weights(dynamics)[:, 3]
    assert black.unique().tolist() == [0.0, 1.0]
    assert divided[black == 1].unique().numel() > 3
