"""One-layer runs: a mixer and a linear decoder, with nothing else that learns or bends."""

from __future__ import annotations

import pytest
import torch

from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.experiments.one_layer import (
    EXPERIMENT,
    FURTHER_RATES,
    FURTHER_SEED,
    SEEDS,
    bare_model,
)
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.training.loop import initial_model
from coefdyn.models import ModelConfig, SequenceModel

PLAN = EXPERIMENT.plan(STANDARD)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_its_mixer_between_an_embedding_and_a_linear_decoder(row):
    (variant,) = PLAN.those_with([{"task": "overwrite", "row": row}])
    model = initial_model(PLAN.run_of(variant, SEEDS[0], PLAN.sweep[0]))
    (block,) = model.blocks
    tokens = torch.randint(variant.task.vocab_size, (2, 12))
    y = block.mixer(model.embedding(tokens), method="parallel")
    torch.testing.assert_close(model(tokens, method="parallel"), model.head(y))
    named = {part for name, _ in block.named_parameters() for part in name.split(".")}
    assert not named & {"gate", "norm", "mixer_norm", "mlp", "mlp_norm", "skip"}
    assert 0.9 < model.embedding.weight.std() < 1.1


def test_every_cell_of_the_scoreboard_has_four_seeds_of_its_own():
    cells = {(one.facets["task"], one.facets["row"]) for one in PLAN.variants}
    assert cells == {(task, row) for task in tasks_of() for row in ROWS}
    assert PLAN.seeds == SEEDS and PLAN.pilot == SEEDS[:1] and len(SEEDS) == 4
    board = ModelConfig()
    assert (board.skip, board.norm) == (True, "layer") and not bare_model("GLA").skip


def test_a_further_look_is_one_other_seed_for_five_times_the_steps_at_higher_rates():
    further = EXPERIMENT.plan("paper")
    assert [one.facets for one in further.variants] == [one.facets for one in PLAN.variants]
    (variant,) = further.those_with([{"task": "overwrite", "row": "mLSTM"}])
    (first,) = further.runs_of(variant)
    assert (first.seed, first.train.learning_rate) == (FURTHER_SEED, max(PLAN.learning_rates))
    assert FURTHER_SEED not in PLAN.seeds and min(FURTHER_RATES) == max(PLAN.learning_rates)
    for mine, theirs in zip(further.variants, PLAN.variants, strict=True):
        assert mine.train.steps == 5 * theirs.train.steps
        assert mine.train.batch == theirs.train.batch


def test_without_norm_and_skip_a_continued_sequence_is_the_same():
    model = SequenceModel(bare_model("Mamba-2"), vocab=7)
    tokens = torch.randint(7, (1, 9))
    whole = model(tokens, method="reference")
    _, state = model.extend(tokens[:, :5])
    torch.testing.assert_close(model.extend(tokens[:, 5:], state)[0], whole[:, 5:])
    with pytest.raises(ValueError, match="skip"):
        ModelConfig(skip="no")
