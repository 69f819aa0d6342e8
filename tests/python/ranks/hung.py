"""Rank 1 submits nothing until a file of this name is there."""

import os
import sys
import time

import numpy

import maypole

with maypole.connect() as session:
    end = time.monotonic() + 30
    while session.rank == 1 and not os.path.exists(sys.argv[1]) and time.monotonic() < end:
        time.sleep(0.01)
    session.all_reduce(numpy.ones(3), name="awaited", timeout=30)
print("all right")
