"""What ranks and agents burn while they wait for rank 0, which comes a second late: as PEER_LATE of harness.h, on Maypole."""

import json
import os
import resource
import time

import numpy

import maypole


def process_cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    with maypole.connect() as session:
        words = numpy.zeros(1, dtype=numpy.float64)
        session.all_reduce(words, op="sum", name="start")
        if session.rank == 0:
            time.sleep(1)
        before = process_cpu()
        session.all_reduce(words, op="sum", name="late")
        burnt = numpy.array([0.0 if session.rank == 0 else process_cpu() - before])
        session.all_reduce(burnt, op="sum", name="burnt")
        if session.rank == 0:
            print(json.dumps({"bytes": 0, "waiting_cpu": burnt[0] / (session.world_size - 1)}), flush=True)


if __name__ == "__main__":
    main()
