"""A model on two processes: ``torchrun --nproc-per-node 2 tests/two_processes.py``.

Every process reads its half of a batch. FSDP2 and accelerate (DDP) must give the gradients and the
step of one process that reads the whole batch; each process prints what it found.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from coefdyn.models import ModelConfig
from coefdyn.models.hugging_face import CoefdynConfig, CoefdynForCausalLM


def build() -> CoefdynForCausalLM:
    torch.manual_seed(0)
    mixer = ("GatedDeltaNet", "SoftmaxAttention")
    sizes = ModelConfig(width=16, layers=2, mlp=24, mixer=mixer, options={"n_heads": 2})
    return CoefdynForCausalLM(CoefdynConfig(model=sizes, vocab_size=23))


def whole(one: torch.Tensor) -> torch.Tensor:
    return one.full_tensor() if isinstance(one, DTensor) else one


def gap(mine: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max((a - b).abs().max().item() for a, b in zip(mine, other, strict=True))


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank, world = dist.get_rank(), dist.get_world_size()
    ids = torch.randint(0, 23, (4, 12), generator=torch.Generator().manual_seed(1))
    own = ids[rank::world]
    alone = build()
    alone(ids, labels=ids).loss.backward()
    want = [one.grad for one in alone.parameters()]

    sharded = build()
    for block in sharded.model.blocks:
        fully_shard(block)
    fully_shard(sharded)
    sharded(own, labels=own).loss.backward()
    shards = [one.grad.to_local().numel() for one in sharded.parameters()]
    assert sum(shards) < 0.6 * sum(one.numel() for one in want), "each process holds its part"
    found = gap([whole(one.grad) for one in sharded.parameters()], want)

    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    trained = build()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    rows = torch.utils.data.DataLoader(list(ids), batch_size=2)
    trained, optimizer, rows = accelerator.prepare(trained, optimizer, rows)
    for batch in rows:
        accelerator.backward(trained(batch, labels=batch).loss)
    optimizer.step()
    stepped = gap(list(trained.parameters()), list(alone.parameters()))
    print(f"process {rank} of {world}: FSDP2 {found:.1e}, accelerate {stepped:.1e}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
