"""Models of different structure train as one program, and none notices the others."""

from __future__ import annotations

import pytest
import torch
from training_runs import tiny_model, tiny_run

from coefdyn.lab.training import RunConfig, TrainOptions, build_model, train_group
from coefdyn.lab.training.ensemble import Ensemble

#: readouts, structures of A_t, embeddings (which change the number of parameters) and blocks
VARIANTS = (
    {"readout": "exp"},
    {"readout": "softplus"},
    {"readout": "exp", "evolution": "constant", "constant": 0.95},
    {"readout": "exp", "position": "rotary"},
    {"readout": "relu", "position": "learned"},
    {"readout": "psi_elu1", "scaling": "one"},
    {"readout": "identity", "evolution": "householder_learned", "normalizer": "one",
     "block": "gated"},
    {"mixer": "Mamba2", "layers": 1, "mlp": None},
)  # fmt: skip
SWEEP = ((1e-3, 0.0, 0), (3e-3, 0.1, 1))


def figure(variants=VARIANTS, sweep=SWEEP, **train) -> list[RunConfig]:
    """Every variant at every point of the sweep, in float64."""
    return [
        tiny_run(
            seed=seed,
            model=tiny_model(**variant),
            **{"learning_rate": rate, "weight_decay": decay, "precision": "float64", **train},
        )
        for variant in variants
        for rate, decay, seed in sweep
    ]


def assert_equals_its_own_run(run: RunConfig, record: dict) -> None:
    (alone,) = train_group([run])
    assert record["key"] == alone["key"]
    assert record["config"] == alone["config"]
    for name, values in alone["metrics"].items():
        assert record["metrics"][name] == pytest.approx(values, rel=1e-9, abs=1e-9), name
    assert record["diagnostics"] == alone["diagnostics"]


def test_every_replica_of_a_whole_figure_equals_its_own_run():
    """In float64, where rounding cannot be amplified: the same numbers to 1e-9."""
    runs = figure(steps=8, evaluate_every=4, clip=0.5)
    records = train_group(runs)
    assert {record["replicas"] for record in records} == {len(runs)}
    for run, record in zip(runs, records, strict=True):
        assert_equals_its_own_run(run, record)


def test_diagnostics_are_each_replicas_own():
    plain, looked_at = figure(VARIANTS[:2], SWEEP[:1], steps=2)
    looked_at = RunConfig(
        task=looked_at.task,
        model=looked_at.model,
        train=looked_at.train,
        diagnostics=("near_zero_fraction",),
    )
    records = train_group([plain, looked_at])
    assert records[0]["diagnostics"] == {}
    for run, record in zip((plain, looked_at), records, strict=True):
        assert_equals_its_own_run(run, record)


def test_a_variant_that_diverges_is_frozen_and_its_neighbours_go_on():
    growing = {"evolution": "constant", "constant": 30.0, "scaling": "one", "normalizer": "one"}
    runs = figure((VARIANTS[4], growing, VARIANTS[0]), ((0.1, 0.0, 0),), steps=6, evaluate_every=3)
    seen = []
    options = TrainOptions(
        on_evaluation=lambda step, rows, ensemble: seen.append(ensemble.flat.clone())
    )
    records = train_group(runs, options)
    assert records[1]["diverged_at"] is not None
    assert torch.isfinite(seen[-1]).all()
    assert seen[0][1].equal(seen[1][1])
    assert not seen[0][0].equal(seen[1][0])
    for place in (0, 2):
        assert records[place]["diverged_at"] is None
        assert_equals_its_own_run(runs[place], records[place])


def test_neighbours_with_equal_models_are_one_part_and_short_rows_end_in_zeros():
    runs = figure((VARIANTS[0], VARIANTS[4]), steps=3)
    seen = []
    train_group(runs, TrainOptions(on_evaluation=lambda step, rows, one: seen.append(one)))
    (ensemble,) = seen
    assert [part.replicas for part in ensemble.parts] == [2, 2]
    short, long = (part.size for part in ensemble.parts)
    assert ensemble.flat.shape == (4, long)
    assert not ensemble.flat[:2, short:].any()
    for replica, run in enumerate(runs):
        rows = torch.cat([p.detach().flatten() for p in ensemble.model(replica).parameters()])
        assert rows.equal(ensemble.flat[replica, : len(rows)])
        assert len(rows) == sum(p.numel() for p in build_model(run).parameters())
    with pytest.raises(IndexError, match="there are 4 replicas"):
        ensemble.model(4)


def test_test_losses_are_summed_in_float32_under_bfloat16():
    """A bfloat16 loss has three digits; perplexities of Table 3 differ in the third."""
    run = tiny_run(precision="bfloat16")
    ensemble = Ensemble([run, run], build_model, torch.device("cpu"), "bfloat16")
    tokens = torch.zeros(2, 1, 11, dtype=torch.int64)
    assert ensemble.logits(tokens).dtype == torch.float32
    losses, gradients = ensemble.loss_and_gradients(tokens, tokens)
    assert (losses.dtype, gradients.dtype) == (torch.float32, torch.float32)


def test_one_replica_keeps_its_rows_as_they_are():
    run = tiny_run()
    ensemble = Ensemble([run], build_model, torch.device("cpu"))
    assert ensemble.flat is ensemble.parts[0].flat


@pytest.mark.compile
def test_compiled_parts_do_not_share_a_graph(monkeypatch):
    """torch's checks miss the readout's function: with shared code ReLU would run as exp."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **_: compiled(step, backend="eager"))
    runs = figure(({"readout": "exp"}, {"readout": "relu"}, {"readout": "softplus"}), SWEEP[:1])
    ensemble = Ensemble(runs, build_model, torch.device("cpu"), "float64")
    tokens = torch.randint(0, 10, (3, 4, 11), generator=torch.Generator().manual_seed(0))
    plain = ensemble.loss_and_gradients(tokens, tokens)
    ensemble.compile()
    torch.testing.assert_close(ensemble.loss_and_gradients(tokens, tokens), plain)
