"""The mean of an array over all ranks.

maypole local --nodes 2 --ranks-per-node 2 -- python3 client/python/examples/numpy_all_reduce.py
"""

import numpy

import maypole

with maypole.connect() as session:  # RANK, WORLD_SIZE, MAYPOLE_SOCKET and MAYPOLE_JOB from the environment
    # Any array: copied in and out.
    gradient = numpy.full(1000, session.rank, numpy.float32)
    session.all_reduce(gradient, "mean", name="layer1")
    print(f"rank {session.rank} of {session.world_size}: mean {gradient[0]}")

    # Memory that the agent reads and writes in place: nothing is copied. Two ops are in flight at once.
    weights = session.empty((256, 256), "float32")
    weights[:] = session.rank + 1
    works = [
        session.all_reduce(weights, "max", name="weights", async_op=True),
        session.all_reduce(gradient, "sum", name="layer1", async_op=True),
    ]
    for work in works:
        work.wait()
    assert (weights == session.world_size).all()
