"""Documents at the level of the dynamics and of models: what is asked, refused and generated."""

from __future__ import annotations

import pytest
import torch
from mixer_cases import CASES, build, tokens
from tolerances import assert_agree

from coefdyn.dynamics.documents import packed, padded
from coefdyn.mixers import GatedDeltaNet, Mixer, MixerState, SoftmaxAttention, Tokens
from coefdyn.models import ModelConfig, SequenceModel

F64 = torch.float64


def test_packed_documents_begin_where_their_bounds_say() -> None:
    found = packed(torch.tensor([0, 3, 4, 7], dtype=torch.int32), 7)
    assert found.starts.int().tolist() == [1, 0, 0, 1, 1, 0, 0]
    assert found.positions.tolist() == [0, 1, 2, 0, 0, 1, 2]
    assert found.following.tolist() == 3


def test_padding_is_a_document_of_its_own() -> None:
    found = padded(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]))
    assert found.positions.tolist() == [[0, 0, 0, 1], [0, 1, 2, 0], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert found.starts.int().tolist() == [[1, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert found.following.tolist() == [2, -3, 4, 0]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([0, 8], "rise from 0 to at most the number of tokens, L=7, got \\[0, 8\\]"),
        ([1, 7], "rise from 0"),
        ([0, 4, 3, 7], "rise from 0"),
        ([0.0, 7.0], "whole numbers"),
        (7, "whole numbers"),
    ],
)
def test_bounds_that_do_not_fit(bounds: list, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        packed(torch.tensor(bounds), 7)


def test_masks_that_do_not_fit() -> None:
    mixer, x = build("GatedDeltaNet"), tokens(2, 5)
    ones = torch.ones(2, 5)
    with pytest.raises(ValueError, match="padding between the tokens of a row"):
        mixer(x, attention_mask=torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]))
    with pytest.raises(ValueError, match="additive mask"):
        mixer(x, attention_mask=torch.tensor([[0.0, 0, 0, -torch.inf, 0]] * 2))
    with pytest.raises(ValueError, match=r"one number per token, \(2, 5\), got \(5,\)"):
        mixer(x, attention_mask=ones[0])
    with pytest.raises(ValueError, match=r"contradict each other: .* 5 of 5 tokens, the mask 4"):
        mixer(
            x[:1], attention_mask=torch.tensor([[0, 1, 1, 1, 1]]), cu_seqlens=torch.tensor([0, 5])
        )
    with pytest.raises(ValueError, match="along one sequence"):
        mixer(x, cu_seqlens=torch.tensor([0, 5]))
    right = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    with pytest.raises(ValueError, match="pad on the left"):
        mixer.extend(x, attention_mask=right)
    state = mixer.extend(x)[1]
    with pytest.raises(ValueError, match="made without attention_mask"):
        mixer.extend(x, state, attention_mask=ones)


@pytest.mark.parametrize("case", ["GatedDeltaNet", "SoftmaxAttention"])
def test_no_state_steps_over_padding_unnoticed(case: str) -> None:
    """Not over that of one token either, nor over a piece that holds nothing else."""
    mixer, x = build(case), tokens(2, 5)
    with pytest.raises(ValueError, match="pad on the left"):
        mixer.extend(x, attention_mask=torch.tensor([[1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]))
    state = mixer.extend(x, attention_mask=torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 1, 1]]))[1]
    assert state.position.tolist() == [0, 4]
    ended = torch.tensor([[0, 0], [0, 0]])
    assert mixer(x[:, :2], state=state, attention_mask=ended).shape == (2, 2, 12)
    with pytest.raises(ValueError, match="pad on the left"):
        mixer.extend(x[:, :2], state, attention_mask=ended)


@pytest.mark.parametrize("rows", [(3,), (1,), (), (3, 2)])
def test_a_state_of_other_rows_is_refused(rows: tuple[int, ...]) -> None:
    """A model looks at its documents before any mixer does."""
    mixer, net = build("SoftmaxAttention"), model("learned")
    ids, bounds = torch.zeros(*rows, 5, dtype=torch.int64), torch.tensor([0, 5])
    for run, first, more in (
        (mixer, tokens(2, 5), tokens(*rows, 5)),
        (net, torch.zeros(2, 5, dtype=torch.int64), ids),
    ):
        state = run.extend(first, attention_mask=torch.ones(2, 5))[1]
        for given in ({}, {"attention_mask": torch.ones(*rows, 5)}, {"cu_seqlens": bounds}):
            if "cu_seqlens" in given and rows not in ((), (1,)):
                continue  # documents are packed along one sequence only
            with pytest.raises(ValueError, match=r"made for leading axes \(2,\), these tokens"):
                run.extend(more, state, **given)


@pytest.mark.parametrize("case", ["GatedDeltaNet", "LinearAttention-learned", "LogLinearAttention"])
def test_masks_at_their_edges(case: str) -> None:
    """No rows, no tokens, and one mask per mapped sequence."""
    mixer, x = build(case), tokens(3, 2, 6)
    mask = torch.ones(3, 2, 6, dtype=torch.int64)
    mask[0, 0, :4] = mask[2, 1, :5] = 0
    want = mixer(x, attention_mask=mask)
    assert mixer.extend(x[:0], attention_mask=mask[:0])[0].shape == (0, 2, 6, 12)
    for given in ({"attention_mask": mask[..., :0]}, {"cu_seqlens": torch.tensor([0, 0])}, {}):
        assert mixer(x[..., :0, :], **given).shape == (3, 2, 0, 12)
        assert mixer.extend(x[..., :0, :], **given)[1] is None
    state = mixer.extend(x)[1]
    assert mixer.extend(x[..., :0, :], state)[1] is state

    def pieces(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        first, state = mixer.extend(x[:, :5], attention_mask=mask[:, :5])
        return torch.cat([first, mixer.extend(x[:, 5:], state)[0]], 1)

    for run in (lambda x, mask: mixer(x, attention_mask=mask), pieces):
        got = torch.func.vmap(run)(x, mask)[mask == 1]
        assert_agree(got, want[mask == 1], method="mixer", dtype=F64, quantity="step")


@pytest.mark.parametrize("case", CASES)
def test_empty_documents_and_a_tail_of_padding_change_nothing(case: str) -> None:
    """Static shapes: boundaries that end before the last token, which may be a NaN."""
    mixer, x = build(case), tokens(1, 9)
    bounds = torch.tensor([0, 0, 3, 3, 3, 7, 7])
    want = torch.cat([mixer(x[:, :3]), mixer(x[:, 3:7])], 1)
    got = mixer(x[:, :7], cu_seqlens=bounds)
    assert_agree(got, want, method="mixer", dtype=F64, quantity="output")
    broken = x.clone()
    broken[:, 7:] = torch.nan
    filled = mixer(broken, cu_seqlens=bounds)
    assert_agree(filled[:, :7], want, method="mixer", dtype=F64, quantity="output")
    assert not filled[:, 7:].any()
    agreed = (torch.arange(9) < 7).long()[None]
    assert torch.equal(mixer(broken, cu_seqlens=bounds, attention_mask=agreed), filled)
    left = torch.cat([broken[:, 7:], broken[:, :3]], 1)
    mask = torch.tensor([[0, 0, 1, 1, 1]])
    alone = mixer(left, attention_mask=mask)[:, 2:]
    assert_agree(alone, want[:, :3], method="mixer", dtype=F64, quantity="output")


def test_packed_training_from_a_collator_is_that_of_separate_documents() -> None:
    """A batch of one length, in which documents are empty, and the tail belongs to none."""
    torch.manual_seed(0)
    options = {"width": 8, "layers": 2, "mlp": 12, "options": {"n_heads": 2}}
    config = ModelConfig(mixer=("GatedDeltaNet", "SoftmaxAttention"), **options)
    model = SequenceModel(config, vocab=11).double()
    documents = [torch.randint(11, (length,)) for length in (5, 0, 3, 1, 0, 7)]

    def collate(rows: list[torch.Tensor], length: int) -> dict[str, torch.Tensor]:
        bounds = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
        filled = torch.cat([*rows, torch.zeros(length - int(bounds[-1]), dtype=torch.int64)])
        labels = torch.cat([filled[1:], torch.tensor([-100])])
        labels[bounds[1:].clamp(min=1) - 1] = -100  # the last token of a document predicts none
        labels[bounds[-1] :] = -100
        return {"tokens": filled[None], "cu_seqlens": bounds, "labels": labels}

    def slopes(loss: torch.Tensor) -> torch.Tensor:
        found = torch.autograd.grad(loss, list(model.parameters()))
        return torch.cat([one.flatten() for one in found])

    def lost(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum")

    batch = collate(documents, 20)
    labels = batch.pop("labels")
    packed = lost(model(**batch)[0], labels)
    alone = sum(lost(model(row)[:-1], row[1:]) for row in documents if len(row) > 1)
    assert packed.item() == pytest.approx(alone.item(), rel=1e-12)
    assert_agree(slopes(packed), slopes(alone), method="mixer", dtype=F64, quantity="gradient")


def test_a_mixer_that_knows_no_documents_says_so() -> None:
    class Old(SoftmaxAttention):
        def tokens(
            self, x: torch.Tensor, state: MixerState | None = None
        ) -> tuple[Tokens, dict[str, torch.Tensor]]:
            return super().tokens(x, state)

    mixer: Mixer = Old(d_model=8, n_heads=2)
    x = torch.randn(2, 5, 8)
    assert mixer(x).shape == x.shape
    with pytest.raises(ValueError, match=r"Old cannot tell documents apart.*tokens\(\) takes no"):
        mixer(x, attention_mask=torch.ones(2, 5))


MODELS = {
    "rotary": {"mixer": "SoftmaxAttention", "position": "rotary"},
    "learned": {"mixer": "LinearAttention", "position": "learned"},
    "gated": {"mixer": "GatedDeltaNet", "block": "gated", "norm": "rms"},
}


def model(name: str) -> SequenceModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = ModelConfig(width=16, options={"n_heads": 2}, **MODELS[name])
        return SequenceModel(config, vocab=13, length=64).double()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_packed_and_padded_documents(name: str) -> None:
    net, lengths = model(name), (4, 20, 9)
    ids = torch.randint(0, 13, (33,), generator=torch.Generator().manual_seed(0))
    parts = ids.split(lengths)
    want = torch.cat([net(part) for part in parts])
    got = net(ids, cu_seqlens=torch.tensor([0, 4, 24, 33]))
    assert_agree(got, want, method="mixer", dtype=F64, quantity="output")
    batch = torch.zeros(3, 20, dtype=torch.int64)
    mask = torch.zeros(3, 20)
    for row, part in enumerate(parts):
        batch[row, 20 - len(part) :], mask[row, 20 - len(part) :] = part, 1
    got = net(batch, attention_mask=mask)[mask.bool()]
    assert_agree(got, want, method="mixer", dtype=F64, quantity="output")
    assert [one.batch_shape for one in net.dynamics(batch, attention_mask=mask)] == [(3, 2)] * 2


@pytest.mark.parametrize("name", MODELS)
def test_prompts_of_different_lengths_are_continued_as_alone(name: str) -> None:
    net = model(name)
    prompts = [torch.arange(1, 8), torch.arange(3, 5), torch.arange(2, 12)]
    want = torch.stack([net.generate(prompt, 6) for prompt in prompts])
    assert torch.equal(net.generate(prompts, 6), want)
    batch = torch.stack([torch.nn.functional.pad(p, (10 - len(p), 0), value=5) for p in prompts])
    mask = torch.stack([torch.arange(10) >= 10 - len(p) for p in prompts])
    assert torch.equal(net.generate(batch, 6, attention_mask=mask), want)


def test_generation_ends_where_it_is_told_to() -> None:
    net, prompt = model("rotary"), torch.arange(3)[None]
    free = net.generate(prompt, 8)[0].tolist()
    eos = free[2]
    first = free.index(eos)
    ended = net.generate(prompt, 8, eos=eos)[0].tolist()
    assert ended == free[: first + 1] + [eos] * (7 - first)
    seed = torch.Generator().manual_seed(0)
    few = net.generate(prompt.expand(200, 3), 1, 5.0, seed, top_k=2).unique()
    assert set(few.tolist()) == set(net(prompt)[0, -1].topk(2).indices.tolist())
    with pytest.raises(ValueError, match="top_k=14 is more than the 13 tokens"):
        net.generate(prompt, 2, top_k=14)
    with pytest.raises(ValueError, match="eos=13 is no token"):
        net.generate(prompt, 2, eos=13)
    with pytest.raises(ValueError, match="pad on the left"):
        net.generate(prompt, 2, attention_mask=torch.tensor([[1, 1, 0]]))
    with pytest.raises(ValueError, match="at least one, got"):
        net.generate([torch.arange(0)], 2)
    with pytest.raises(ValueError, match="makes its own mask"):
        net.generate([torch.arange(3)], 2, attention_mask=torch.ones(1, 3))


def test_documents_take_memory_in_proportion_to_their_length() -> None:
    """No L x L mask: twice the tokens save at most some twice the numbers for the backward pass."""
    mixer = GatedDeltaNet(d_model=8, n_heads=1)

    def saved(length: int) -> int:
        numbers = 0

        def count(value: torch.Tensor) -> torch.Tensor:
            nonlocal numbers
            numbers += value.numel()
            return value

        with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
            mixer(torch.randn(length, 8), cu_seqlens=torch.tensor([0, length // 2, length]))
        return numbers

    assert saved(2048) < 2.2 * saved(1024)
