"""Rank 1 is killed in the middle: the others' calls end within a second, name it, and leave their inputs as they were."""

import os
import signal
import time
from contextlib import suppress

import numpy

import maypole

with maypole.connect() as session:
    value = numpy.ones(100_000)
    memory = session.empty(100_000)
    memory[:] = 2
    session.barrier("start")
    token = numpy.zeros(1)
    if session.rank == 1:
        for rank in {0, *range(2, session.world_size)}:
            session.recv(token, rank, name="waiting")
        print(f"killed at {time.monotonic()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    works = [
        session.all_reduce(value, name="a", timeout=60, async_op=True),
        session.all_reduce(memory, name="b", timeout=60, async_op=True),
    ]
    with suppress(maypole.PeerLostError):  # it need not have read the last one
        session.send(token, 1, name="waiting")
    for work in works:
        try:
            work.wait()
            print("NO ERROR")
        except maypole.PeerLostError as error:
            print(f"LOST {error.ranks} at {time.monotonic()}: {error}")
    assert (value == 1).all() and (memory == 2).all(), "the input was touched"
    try:
        session.all_reduce(value, name="c")
        print("NO ERROR later")
    except maypole.PeerLostError as error:
        print(f"STILL LOST {error.ranks}")
    print("survived")
