"""A mixer of one's own: checked by the library, found by models."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tolerances import assert_agree

from coefdyn import CoefficientDynamics, evolution, mixers, normalizer, readout
from coefdyn.mixers import (
    GatedDeltaNet,
    HeadMixer,
    LinearAttention,
    Mixer,
    NormalizedAttention,
    SoftmaxAttention,
    Tokens,
    check_mixer,
    register_mixer,
    running_sum,
)
from coefdyn.mixers.registry import REGISTERED
from coefdyn.models import ModelConfig, SequenceModel

X = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0))


def build(form: type[Mixer], **options) -> Mixer:
    torch.manual_seed(1)
    return form(d_model=8, n_heads=2, **options)


@pytest.mark.parametrize("form", [SoftmaxAttention, GatedDeltaNet])
def test_the_contract_of_a_sound_mixer_holds(form):
    mixer = build(form)
    contract = check_mixer(mixer, X)
    assert contract.holds, str(contract)
    assert "chunked" in contract.outputs
    assert ("recurrent" in contract.outputs) == (form is GatedDeltaNet)
    assert next(mixer.parameters()).dtype == torch.float32


class Ten(Mixer):
    """A mixer of ten lines: the sum over the past of tanh of the score."""

    def build(self, tokens):
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.key_dim**-0.5,
            readout=readout.Pointwise(torch.tanh),
            normalizer=normalizer.One(),
        )


def test_one_method_is_enough():
    torch.manual_seed(0)
    mixer = Ten(d_model=16, n_heads=2)
    x = torch.randn(2, 9, 16)
    heads = [
        (x @ mixer.project[name].linear.weight.T).unflatten(-1, (2, 8)).transpose(1, 2)
        for name in ("query", "key", "value")
    ]
    scores = torch.tanh(heads[0] @ heads[1].mT / 8**0.5).tril()
    y = (scores @ heads[2]).transpose(1, 2).flatten(-2) @ mixer.output.projection.weight.T
    assert_agree(mixer(x), y, method="mixer", dtype=torch.float32, quantity="output")
    contract = check_mixer(mixer, x)
    assert contract.holds, str(contract)


def test_a_mixer_of_ten_lines_is_trained_by_name():
    """One block learns in 20 steps to say the last token."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 4, (64, 5), generator=generator)
    try:
        register_mixer(Ten)
        config = ModelConfig(width=16, layers=1, mlp=None, mixer="Ten", options={"n_heads": 2})
        torch.manual_seed(0)
        model = SequenceModel(config, vocab=4)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        losses = []
        for _ in range(20):
            logits = model(tokens)[:, -1]
            loss = torch.nn.functional.cross_entropy(logits, tokens[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    finally:
        REGISTERED.clear()
    assert type(model.blocks[0].mixer) is Ten
    assert losses[-1] < 0.5 * losses[0]


class Peeking(SoftmaxAttention):
    """Adds a mean over the whole sequence to every key."""

    def tokens(self, x, state=None):
        return super().tokens(x + x.mean(-2, keepdim=True), state)


class Idle(SoftmaxAttention):
    """Has a parameter that nothing reads."""

    def __init__(self, *, d_model: int, n_heads: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads)
        self.idle = torch.nn.Parameter(torch.zeros(3))


class Counting(NormalizedAttention):
    """Divides by the position inside the piece, not inside the sequence."""

    def build(self, tokens):
        count = torch.arange(1.0, tokens.x.shape[-2] + 1).to(tokens.q)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.Given(count),
        )


def test_a_look_at_the_future_is_found():
    contract = check_mixer(build(Peeking), X)
    assert contract.future > 1e-3
    assert not contract.holds
    assert "causal                             error" in str(contract)


def test_a_step_that_differs_from_the_whole_is_found():
    contract = check_mixer(build(Counting), X)
    assert contract.future <= 1e-9
    assert contract.steps > 1e-3
    assert not contract.holds


def test_a_parameter_without_gradient_is_named():
    contract = check_mixer(build(Idle), X)
    assert contract.without_gradient == ("idle",)
    assert not contract.holds


def test_a_parameter_whose_gradient_is_zero_is_no_error():
    """Rows of softmax do not change when a bias moves all their scores alike."""
    for mixer in (build(SoftmaxAttention, bias=True), build(LinearAttention, key_dim=1)):
        contract = check_mixer(mixer, X)
        assert contract.holds, str(contract)


class Pooling(SoftmaxAttention):
    """Replaces every token by the mean of its pair: token 2i sees token 2i + 1."""

    def tokens(self, x, state=None):
        if x.shape[-2] > 1:
            x = x.unflatten(-2, (-1, 2)).mean(-2).repeat_interleave(2, dim=-2)
        return super().tokens(x, state)


def test_a_look_at_the_partner_is_found_at_every_length():
    for length in (2, 4, 8, 20):
        assert check_mixer(build(Pooling), X[:, :length]).future > 1e-3


class Whole(SoftmaxAttention):
    """Divides by the norm of the whole sequence."""

    def finish(self, y, tokens):
        return super().finish(y, tokens) / tokens.x.norm(dim=(-2, -1), keepdim=True)


def test_a_normaliser_over_the_whole_sequence_is_found():
    assert check_mixer(build(Whole), X).future > 1e-3
    mirrored = torch.full_like(X, 0.5)
    mirrored[..., 0] = X[..., 0]  # -x + 1 is x in all other channels
    assert check_mixer(build(Whole), mirrored).future > 1e-3


class SecondOrder(HeadMixer):
    """q_i^T S_j q_j with S_j = k_1 k_1^T + ... + k_j k_j^T: a key that is made of the past."""

    #: where the sum of outer products is taken, and so what it forgets
    sums = "running"

    def tokens(self, x, state=None, documents=None):
        found, past = super().tokens(x, state, documents)
        outer = (found.k[..., :, None] * found.k[..., None, :]).flatten(-2)
        before = None if state is None else state.past["gram"]
        begins = documents if self.sums == "running" else None
        gram, past["gram"] = running_sum(outer, before, begins)
        if self.sums == "build":
            return found, past
        return replace(found, k=self.keys(gram, found)), past

    def keys(self, gram, found):
        return (gram.unflatten(-1, (self.key_dim, -1)) @ found.q[..., None])[..., 0]

    def build(self, tokens):
        k = tokens.k
        if self.sums == "build":
            gram = (k[..., :, None] * k[..., None, :]).cumsum(-3).flatten(-2)
            k = self.keys(gram, tokens)
        return CoefficientDynamics(
            q=tokens.q,
            k=k,
            evolution=evolution.Identity(),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )


class Preconditioned(HeadMixer):
    """The delta rule along k_t / (1 + k_1^2 + ... + k_t^2), channel by channel."""

    def tokens(self, x, state=None, documents=None):
        found, past = super().tokens(x, state, documents)
        before = None if state is None else state.past["squares"]
        squares, past["squares"] = running_sum(found.k.square(), before, documents)
        return replace(found, z=found.k / (1 + squares)), past

    def build(self, tokens):
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.z,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=torch.zeros_like(tokens.k), left=tokens.z, right=tokens.k
            ),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )


@pytest.mark.parametrize("form", [SecondOrder, Preconditioned])
def test_keys_made_of_the_past_hold_with_a_running_sum(form):
    mixer = build(form)
    contract = check_mixer(mixer, X)
    assert contract.holds, str(contract)
    mixer, documents = mixer.double(), [X[:1, :7].double(), X[1:, :13].double()]
    packed = mixer(torch.cat(documents, 1), cu_seqlens=torch.tensor([0, 7, 20]))
    alone = torch.cat([mixer(one) for one in documents], 1)
    assert_agree(packed, alone, method="mixer", dtype=torch.float64, quantity="output")
    weights = list(mixer.project.parameters())
    both = (torch.autograd.grad(y.sin().sum(), weights) for y in (packed, alone))
    for one, other in zip(*both, strict=True):
        assert_agree(one, other, method="mixer", dtype=torch.float64, quantity="gradient")


@pytest.mark.parametrize(
    ("sums", "lines"),
    [
        ("build", ["token by token = whole", "pieces = whole", "packed"]),
        ("carried", ["packed"]),
    ],
)
def test_a_sum_that_forgets_or_leaks_is_found_and_told_what_to_do(sums, lines):
    mixer = build(SecondOrder)
    mixer.sums = sums
    contract = check_mixer(mixer, X)
    assert not contract.holds
    failed = [line for line in str(contract).splitlines() if " error " in line]
    assert len(failed) == len(lines)
    for found, name in zip(failed, lines, strict=True):
        assert found.startswith(name)
    assert str(contract).count("see coefdyn.mixers.running_sum") == len(
        [name for name in lines if name != "pieces = whole"]
    )


class Failing(SoftmaxAttention):
    """Meets documents with an error of its own."""

    def tokens(self, x, state=None, documents=None):
        if documents is not None:
            raise ValueError("no such shape")
        return super().tokens(x, state)


def test_a_mixer_may_refuse_documents_and_not_fail_at_them():
    """One whose tokens() takes none says so; an error of its own is a fault."""

    class Old(SoftmaxAttention):
        def tokens(self, x, state=None):
            return super().tokens(x, state)

    contract = check_mixer(build(Old), X)
    assert contract.holds and "refused: Old cannot tell documents apart" in str(contract)
    contract = check_mixer(build(Failing), X)
    assert not contract.holds and "fails with ValueError: no such shape" in str(contract)


class Mingling(SoftmaxAttention):
    """Takes the mean of the batch from every row."""

    def finish(self, y, tokens):
        return super().finish(y - y.mean(0, keepdim=True), tokens)


class Rounding(SoftmaxAttention):
    """Overflows in half precision: its keys are a difference of large numbers."""

    def tokens(self, x, *given, **documents):
        return super().tokens((x + 300.0) - 300.0, *given, **documents)


@pytest.mark.parametrize(
    ("form", "name"),
    [(Mingling, "rows of a batch apart"), (Rounding, "bfloat16 = float64")],
)
def test_rows_that_mingle_and_digits_that_go_are_found(form, name):
    contract = check_mixer(build(form), X)
    assert contract.others[name] > (0.1 if "bfloat16" in name else 1e-3)
    assert not contract.holds
    assert f"{name:<34} error" in str(contract)


@pytest.mark.parametrize(
    ("mixer", "x", "words"),
    [
        (SoftmaxAttention, X[:, :1], "at least 2 tokens, got 1"),
        (SoftmaxAttention, X[:0], "at least one sequence"),
        (SoftmaxAttention, torch.full((2, 9, 8), 0.5), "tokens that differ"),
        (SoftmaxAttention, torch.zeros(2, 9, 8), "tokens that differ"),
        (SoftmaxAttention, X * torch.nan, "finite"),
        (SoftmaxAttention, [[0.0]], "x must be a floating-point tensor.*got list"),
        (SoftmaxAttention, X.long(), "got torch.int64"),
        (SoftmaxAttention, X[..., :3], "d_model=8"),
        (torch.nn.Linear, X, "checks a coefdyn.mixers.Mixer, got Linear"),
        (None, X, "give an object, not the class"),
    ],
)
def test_checks_that_could_find_nothing_are_refused(mixer, x, words, no_shape_checks):
    if mixer is None:
        built = SoftmaxAttention
    else:
        built = torch.nn.Linear(8, 8) if mixer is torch.nn.Linear else build(mixer)
    with pytest.raises(ValueError, match=words):
        check_mixer(built, x)


def test_an_output_of_zero_is_refused():
    mixer = build(SoftmaxAttention)
    torch.nn.init.zeros_(mixer.output.projection.weight)
    with pytest.raises(ValueError, match="0 everywhere"):
        check_mixer(mixer, X)


def test_likely_mistakes_are_answered_in_words(no_shape_checks):
    mixer = build(GatedDeltaNet)
    with pytest.raises(ValueError, match=r"x has dtype torch.float64 on cpu, the parameters of"):
        mixer(X.double())
    state = mixer.extend(X)[1]
    with pytest.raises(ValueError, match=r"leading axes \(2,\), these tokens have \(3,\)"):
        mixer.extend(torch.randn(3, 4, 8), state)
    bare = build(GatedDeltaNet, short_convolution=0).extend(X)[1]
    with pytest.raises(ValueError, match="no memory of the query convolution"):
        mixer.extend(X, bare)
    with pytest.raises(ValueError, match="step takes one token"):
        mixer.step(torch.tensor(1.0))
    with pytest.raises(ValueError, match="must be what the previous call returned"):
        mixer.extend(X, 3)


def test_a_model_finds_a_registered_mixer():
    sizes = {"width": 8, "layers": 1, "mlp": None, "options": {"n_heads": 2}}
    with pytest.raises(ValueError, match="no mixer is named 'Peeking'"):
        ModelConfig(**sizes, mixer="Peeking")
    try:
        assert register_mixer(Peeking) is Peeking
        model = SequenceModel(ModelConfig(**sizes, mixer="Peeking"), vocab=5)
        assert type(model.blocks[0].mixer) is Peeking
    finally:
        REGISTERED.clear()


def test_only_new_names_of_mixers_can_be_registered(no_shape_checks):
    with pytest.raises(ValueError, match="takes a subclass of Mixer, got"):
        register_mixer(torch.nn.Linear)
    with pytest.raises(ValueError, match=r"GatedDeltaNet' is a name of coefdyn\.mixers"):
        register_mixer(type("GatedDeltaNet", (SoftmaxAttention,), {}))


def test_a_build_without_a_return_is_told_in_words() -> None:
    class Forgot(HeadMixer):
        def build(self, tokens: Tokens) -> CoefficientDynamics:
            tokens.match(tokens.q)

    mixer, x = Forgot(d_model=4, n_heads=2), torch.randn(3, 4)
    for run in (mixer, mixer.extend, mixer.dynamics):
        with pytest.raises(ValueError, match=r"Forgot.build must .*None \(is a return"):
            run(x)


@pytest.mark.parametrize("name", ["DeltaNet", "GatedDeltaNet", "KDA", "GatedDeltaNet2", "Comba"])
def test_fewer_pairs_than_heads_are_equal_pairs(name: str) -> None:
    """Two pairs for four heads: the layer of four pairs whose maps are equal two by two."""
    form, sizes = getattr(mixers, name), {"d_model": 12, "n_heads": 4}
    few = form(**sizes, key_heads=2).double()
    all_heads, held = form(**sizes).double(), dict(few.state_dict())
    for part in ("query", "key"):
        for leaf in ("linear.weight", "convolution.weight"):
            axis = 0 if leaf.startswith("linear") else 1
            tied = held[f"project.{part}.{leaf}"].unflatten(axis, (2, 3))
            tied = tied.repeat_interleave(2, dim=axis).flatten(axis, axis + 1)
            held[f"project.{part}.{leaf}"] = tied
    all_heads.load_state_dict(held)
    x = torch.randn(2, 70, 12, dtype=torch.float64)
    assert torch.allclose(few(x), all_heads(x), rtol=1e-11, atol=1e-13)
    with pytest.raises(ValueError, match="key_heads must divide n_heads=4"):
        form(**sizes, key_heads=3)
    with pytest.raises(ValueError, match="key_heads must be a whole number >= 1, got 0"):
        form(**sizes, key_heads=0)
