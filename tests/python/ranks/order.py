"""Many names at once, submitted in another order on every rank; waited for in yet another."""

import random

import numpy

import maypole

NAMES = 100

with maypole.connect() as session:
    order = list(range(NAMES)) * 2  # each name twice: its first op meets the first ones of the others
    random.Random(session.rank).shuffle(order)
    seen, works = set(), []
    for number in order:
        turn = 1000 if number in seen else 0
        seen.add(number)
        value = numpy.full(number + 1, number + turn, numpy.int64)
        works.append((number + turn, value, session.all_reduce(value, name=f"t{number}", priority=number % 3, async_op=True)))
    random.Random(-session.rank).shuffle(works)
    for expected, value, work in works:
        work.wait()
        assert (value == expected * session.world_size).all(), (expected, value[0])
    session.barrier()
    print("all right")
