"""Every collective but all-reduce at awkward sizes and every dtype, against numpy; arrays in session and ordinary memory."""

import itertools
import sys

import numpy
import torch

import maypole
from maypole._arrays import DTYPE_CODES


def values(dtype, count, rank):
    """The same on every rank that asks: small whole numbers, so that sums are exact in every type."""
    return torch.from_numpy((numpy.arange(count) * 7 + rank * 5) % 4).to(getattr(torch, dtype))


class Check:
    def __init__(self, session):
        self.session = session
        self.failures = []

    def same(self, what, got, expected):
        if not torch.equal(torch.as_tensor(got).flatten(), expected.flatten()):
            self.failures.append(f"{what}: got {got}, not {expected}")

    def array(self, dtype, count, in_session):
        make = self.session.empty if in_session else torch.empty
        array = make(count, dtype=getattr(torch, dtype))
        array.copy_(values(dtype, count, self.session.rank))
        return array

    def run(self, dtype, block, in_session):
        session, world, rank = self.session, self.session.world_size, self.session.rank
        name = f"{dtype} {block} {in_session}"
        count = block * world
        everybody = [values(dtype, count, r) for r in range(world)]
        total = torch.stack([part.to(torch.float64) for part in everybody]).sum(0).to(getattr(torch, dtype))
        own = slice(rank * block, (rank + 1) * block)

        array = self.array(dtype, count, in_session)
        self.same(f"reduce_scatter {name}", session.reduce_scatter(array, name=name, timeout=20), total[own])
        expected = everybody[rank].clone()
        expected[own] = total[own]
        self.same(f"the rest after reduce_scatter {name}", array, expected)

        array = self.array(dtype, count, in_session)
        gathered = torch.cat([part[r * block : (r + 1) * block] for r, part in enumerate(everybody)])
        self.same(f"all_gather {name}", session.all_gather(array, name=name, timeout=20), gathered)

        array = self.array(dtype, count, in_session)
        root = block % world
        self.same(f"reduce {name}", session.reduce(array, root, name=name), total if rank == root else everybody[rank])
        self.same(f"broadcast {name}", session.broadcast(array, root, name=name, timeout=20), total)

        array = self.array(dtype, count, in_session)
        swapped = torch.cat([part[own] for part in everybody])
        self.same(f"all_to_all {name}", session.all_to_all(array, name=name, timeout=20), swapped)

        after, before = (rank + 1) % world, (rank - 1) % world
        if world > 1:
            work = session.send(self.array(dtype, count, in_session), after, name=name, async_op=True)
            array = self.array(dtype, count, in_session)
            self.same(f"recv {name}", session.recv(array, before, name=name, timeout=20), everybody[before])
            work.wait()

    def run_uneven(self):
        session, world, rank = self.session, self.session.world_size, self.session.rank
        counts = [(r * 1000) % 3001 for r in range(world)]
        begins = [sum(counts[:r]) for r in range(world + 1)]
        own = slice(begins[rank], begins[rank + 1])
        array = numpy.zeros(sum(counts), numpy.float32)
        array[own] = rank + 1
        session.all_gather(array, counts=counts, name="uneven", timeout=20)
        expected = numpy.repeat(numpy.arange(1, world + 1, dtype=numpy.float32), counts)
        self.same("all_gather with counts", array, torch.from_numpy(expected))
        block = session.reduce_scatter(array, "mean", counts=counts, name="uneven", timeout=20)
        self.same("reduce_scatter with counts", block, torch.from_numpy(expected[own]))
        assert block.base is not None and block.size == counts[rank]
        shared = session.broadcast(array, shared_result=True, name="shared", timeout=20)
        assert not shared.flags.writeable
        self.same("broadcast to a shared result", shared.copy(), torch.from_numpy(expected))


def main():
    with maypole.connect() as session:
        check = Check(session)
        for dtype, block, in_session in itertools.product(DTYPE_CODES, (0, 1, 37, 20_000), (False, True)):
            check.run(dtype, block, in_session)
        check.run_uneven()
        session.barrier()
        print("\n".join(check.failures[:5]) or f"all right in a world of {session.world_size}")
    return 1 if check.failures else 0


sys.exit(main())
