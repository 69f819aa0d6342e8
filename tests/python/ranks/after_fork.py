"""A forked child (a data loader) gets clear errors, and its end harms nothing."""

import os
import sys

import numpy

import maypole


def child_errors(session, work):
    def kind(call):
        try:
            call()
        except maypole.Error as error:
            return type(error).__name__, "fork" in str(error)
        return "nothing"

    reduce = lambda: session.all_reduce(numpy.ones(3))  # noqa: E731
    calls = (reduce, session.barrier, lambda: session.empty(3), session.agent_stats, work.wait)
    return [kind(call) for call in calls]


with maypole.connect() as session:
    array = session.empty(1000)
    work = session.all_reduce(numpy.ones(3), name="before", async_op=True)
    for leave in (sys.exit, os._exit):
        child = os.fork()
        if child == 0:
            expected = [("FailedPreconditionError", True)] * 5
            found = child_errors(session, work)
            print(found if found != expected else "child refused", flush=True)
            leave(0 if found == expected else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
    work.wait()
    array[:] = 1
    session.all_reduce(array, name="after")
    assert (array == session.world_size).all()
session.close()
try:
    session.all_reduce(array)
    print("NO ERROR")
except maypole.FailedPreconditionError:
    pass
array += 1  # an array may outlive its session
print("all right")
