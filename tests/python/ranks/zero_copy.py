"""Session memory is the shared segment itself; shared results are one read-only mapping for the node's ranks."""

import os
from pathlib import Path

import numpy
import torch

import maypole


def mapping_at(address):
    """The line of /proc/self/maps that holds `address`."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return line
    raise AssertionError(f"{address:#x} is not mapped")


with maypole.connect() as session:
    array = session.empty(10_000)
    tensor = session.empty(10_000, torch.bfloat16)
    for address in (array.ctypes.data, tensor.data_ptr()):
        line = mapping_at(address)
        assert "memfd" in line and "rw-s" in line, line
        assert address % 64 == 0
    address = array.ctypes.data
    array[:] = session.rank
    work = session.all_reduce(array, "max", name="in place", async_op=True)
    assert work.wait() is array and array.ctypes.data == address
    assert (array == session.world_size - 1).all()

    ordinary = numpy.full(10_000, session.rank, numpy.int32)
    shared = session.all_reduce(ordinary, "sum", name="shared", shared_result=True)
    assert "memfd" in mapping_at(shared.ctypes.data) and " r--s " in mapping_at(shared.ctypes.data)
    assert (shared == sum(range(session.world_size))).all() and (ordinary == session.rank).all()
    session.barrier()
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        session.all_reduce(session.empty(5000), name="round")
        session.all_reduce(ordinary, name="round shared", shared_result=True)
    assert len(os.listdir("/proc/self/fd")) <= open_files + 4, "descriptors leak"
assert (shared == sum(range(session.world_size))).all()
print("all right")
