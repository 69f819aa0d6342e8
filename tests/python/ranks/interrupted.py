"""Waits for a rank that never comes, until Ctrl-C."""

import time

import maypole

with maypole.connect() as session:
    session.barrier("start")
    print("waiting", flush=True)
    if session.rank == 0:
        session.barrier("rank 0 alone")
    time.sleep(60)
