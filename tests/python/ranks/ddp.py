"""The hook gives the gradients that gloo gives; a failed step raises in backward, and the next step works."""

import os
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import maypole
import maypole.torch


def make(dtype):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 8)]
    return DistributedDataParallel(torch.nn.Sequential(*layers).to(dtype), bucket_cap_mb=0.1)


def step(model, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    model.zero_grad()
    model(torch.randn(16, 64, generator=generator).to(dtype)).square().mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
torch.set_num_threads(1)
with maypole.connect() as session:
    torch.distributed.init_process_group("gloo", rank=session.rank, world_size=session.world_size)
    for dtype in (torch.float32, torch.float64):
        ours, theirs = make(dtype), make(dtype)
        state = maypole.torch.HookState(session, prefix=str(dtype))
        ours.register_comm_hook(state, maypole.torch.allreduce_hook)
        for number in range(4):  # one bucket in the first step, then several
            seed = number * 100 + session.rank
            found, expected = step(ours, seed, dtype), step(theirs, seed, dtype)
            assert torch.allclose(found, expected, rtol=1e-4, atol=1e-6), (found - expected).abs().max()
        assert state.stats.buckets > 4 and state.stats.failures == 0, state.stats

    # Half types: gloo of torch 1.13 cannot even set up such a model, so the bucket stands for itself.
    for dtype in (torch.float16, torch.bfloat16):
        parts = [torch.linspace(-1 - rank, 1, 5001).to(dtype) for rank in range(session.world_size)]
        bucket = parts[session.rank].clone()
        found = maypole.torch.HookState(session, prefix=str(dtype)).reduce(0, bucket).wait()
        expected = torch.stack(parts).double().mean(0)
        assert found.data_ptr() == bucket.data_ptr()
        assert torch.allclose(found.double(), expected, rtol=torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps)

    if "--fail" in sys.argv:
        model = make(torch.float32)
        state = maypole.torch.HookState(session, prefix="failing", timeout=2.0)
        model.register_comm_hook(state, maypole.torch.allreduce_hook)
        for number in range(2):  # in the second, DDP makes its buckets anew, and agrees on them by gloo
            step(model, number, torch.float32)
        if session.rank != 1:  # rank 1 sits out one step
            try:
                step(model, 1, torch.float32)
                print("NO ERROR")
            except RuntimeError as error:
                print(f"RAISED {str(error).splitlines()[0]}")
                assert "maypole.TimeoutError" in str(error) and state.error.waiting_for == (1,)
        session.barrier("together again")
        # The next step works, on the same model. Rank 1 is one op per name behind, so names start anew.
        state.prefix = "again"
        state.timeout = 20
        gradient = step(model, 2, torch.float32)
        session.all_reduce(gradient, "max", name="check")
    torch.distributed.destroy_process_group()
    print("all right")
