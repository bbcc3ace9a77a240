"""Sentences of the book held against what they speak of: a construction, designs, verdicts."""

from __future__ import annotations

import re

import pytest
import torch

from coefdyn.lab.experiments import own_designs
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.group import verdict_of
from coefdyn.lab.places import checkout
from coefdyn.lab.tasks import PermutationConfig, sample, split_generator
from coefdyn.mixers.registry import REGISTERED

BOOK = checkout() / "book"
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?::[^\n]*\n|---\n.*?^---\n)?(.*?)^```$", re.S | re.M
)


def cells(page: str, *words: str) -> str:
    """The code cells of a page that contain one of some words, in their order."""
    found = CELL.findall((BOOK / page).read_text(encoding="utf-8"))
    return "\n".join(one for one in found if any(word in one for word in words))


def test_two_layers_that_only_add_follow_s3():
    """The chapter's own cell, on texts of another seed and at four times the length."""
    names: dict = {}
    exec("import math\nimport torch\nfrom coefdyn import *", names)
    exec(cells("principles/principle_4.md", "def add_up"), names)
    for length in (24, 96):
        task = PermutationConfig.quick().with_changes({"seq_len": length})
        drawn = sample(task, 64, split_generator(7, "test"), "test")
        assert torch.equal(names["follow"](drawn.inputs), drawn.targets)


def test_the_designs_that_were_judged_are_those_of_the_chapter():
    names: dict = {}
    shared = "from dataclasses import replace\nimport torch\nfrom torch.nn import functional\n"
    shared += "from coefdyn import normalizer, readout\n"
    shared += "from coefdyn.mixers import GatedDeltaNet, register_mixer\n"
    exec(shared, names)
    kept = {name: getattr(own_designs, name) for name in own_designs.__all__}
    try:
        code = cells("design/your_own.md", "class ")
        wanted = [
            r"^def poised.*?\n\n",
            *(rf"^@register_mixer\nclass {one}.*?\n\n\n" for one in kept),
        ]
        text = cells("design/your_own.md", "def poised") + "\n\n\n" + code + "\n\n\n"
        for pattern in wanted:
            exec(re.search(pattern, text, re.S | re.M)[0], names)
    finally:
        REGISTERED.update(kept)
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0))
    for name, ours in kept.items():
        layers = []
        for form in (ours, names[name]):
            torch.manual_seed(1)
            layers.append(form(d_model=16, n_heads=2))
        torch.testing.assert_close(layers[0](x), layers[1](x), rtol=0, atol=0)


@pytest.mark.parametrize(("page", "told"), [("six_principles.md", 10), ("design/your_own.md", 8)])
def test_a_page_of_verdicts_says_what_the_judge_says(page, told):
    text = (BOOK / page).read_text(encoding="utf-8")
    by_id = {one.id: one for one in HEADLINES}
    said = 0
    for ids, status in re.findall(r"((?:`[\w/-]+`(?:, | and )?)+): ([\w ]+?)[.,;]", text):
        for id_ in re.findall(r"`([\w/-]+)`", ids):
            verdict = verdict_of(by_id[id_])
            assert status == (by_id[id_].kind if verdict is None else verdict.status), id_
            said += 1
    assert said >= told
