"""Rank 1 never submits: the others are told so at the deadline; inputs stay; the session lives."""

import time

import numpy

import maypole

with maypole.connect() as session:
    value = numpy.ones(100)
    memory = session.empty(100)
    memory[:] = 2
    session.barrier("start")
    if session.rank != 1:
        start = time.monotonic()
        for array, expected in ((value, 1), (memory, 2)):
            try:
                session.all_reduce(array, name="only some", timeout=1.5)
                print("NO ERROR")
            except maypole.TimeoutError as error:
                print(f"TIMEOUT for {error.waiting_for} on {error.hosts}: {error}")
                assert error.waiting_for == (1,), error.culprits
            assert (array == expected).all(), "the input was touched"
        assert 2.5 < time.monotonic() - start < 8
    session.barrier("end", timeout=30)
    print("all right")
