"""Session and Work over a fake library: lifetimes, waits, and every error."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest
import torch

import maypole
from conftest import PACKAGE, build_fake_library
from maypole._arrays import memory_of


def counter(fake_library, name):
    gc.collect()
    return ctypes.c_int.in_dll(fake_library, name).value


def test_connect_takes_both_rank_and_world_size_or_neither(fake_library):
    with pytest.raises(maypole.InvalidArgumentError, match="give both"):
        maypole.connect(rank=0)


@pytest.mark.parametrize(
    "arguments, hint",
    [
        ({"rank": 3, "world_size": 3}, "rank=3 .* from 0 to 2"),
        ({"rank": -1}, "rank=-1"),
        ({"rank": "0"}, "rank='0' .* an int"),
        ({"rank": 0.5}, "rank=0.5 .* an int"),
        ({"world_size": 2**64 + 2}, "world_size=18446744073709551618"),
        ({"world_size": 0}, "world_size=0"),
        ({"world_size": [2]}, r"world_size=\[2\] .* an int"),
        ({"job": 5}, "job=5 must be a str"),
        ({"job": b"job"}, "job=b'job' must be a str"),
        ({"job": "a\0b"}, "zero byte"),
        ({"job": "\ud800"}, "job='.ud800' is no text"),
        ({"socket": 5}, "socket=5 must be a str or a path"),
        ({"socket": "/run\0/x"}, "zero byte"),
        ({"socket": "/run/\ud800"}, "is no text"),
        ({"deterministic": "x"}, "deterministic='x' must be True or False"),
        ({"deterministic": 2}, "deterministic=2"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"timeout": 1j}, "timeout=1j"),
        ({"timeout": float("inf")}, "timeout=inf"),
    ],
)
def test_connect_refuses_a_bad_argument_with_its_value(fake_library, arguments, hint):
    with pytest.raises(maypole.InvalidArgumentError, match=hint):
        maypole.connect(**{"rank": 0, "world_size": 2, **arguments})


def test_connect_takes_numbers_of_numpy_and_paths(fake_library):
    with pytest.raises(maypole.AgentUnavailableError, match="/nobody"):
        maypole.connect(
            Path("/nobody"), rank=numpy.int32(0), world_size=numpy.int64(1), timeout=numpy.float32(1), deterministic=numpy.True_
        )


def test_connect_raises_what_the_library_said(fake_library):
    with pytest.raises(maypole.AgentUnavailableError, match="/nobody"):
        maypole.connect(socket="/nobody")


def test_ctrl_c_ends_a_wait_and_the_op_goes_on(session):
    work = session.barrier("never", async_op=True)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work.wait()
    assert time.monotonic() - start < 2
    assert not work.test()


@pytest.mark.parametrize("status, kind", [(2, maypole.MismatchError), (3, maypole.PeerLostError), (4, maypole.TimeoutError)])
def test_a_failed_op_raises_at_every_wait(session, status, kind):
    work = session.all_reduce(numpy.zeros(3), name=f"fail {status} ranks=3;hosts=node-b", async_op=True)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            work.wait()
        assert (caught.value.ranks, caught.value.hosts) == ((3,), ("node-b",))
    assert work.test()


def test_a_blocking_call_returns_the_array_itself(session):
    value = torch.ones(3)
    assert session.all_reduce(value) is value


@pytest.mark.parametrize("op, number", [("avg", 1), ("prod", 4), ("SUM", 0), ("AVG", 1), ("MIN", 2), ("MAX", 3), ("PRODUCT", 4)])
def test_a_reduction_has_the_names_that_others_give_it(op, number):
    from maypole._session import _options

    given = getattr(torch.distributed.ReduceOp, op) if op.isupper() else op
    assert _options(memory_of(numpy.zeros(3), True), None, None, 0, op=given).reduction == number


def test_bools_are_sent_but_not_reduced(session):
    value = numpy.array([True, False])
    assert session.broadcast(value) is value
    assert session.broadcast(value, shared_result=True).dtype == bool
    assert session.all_to_all(value).dtype == bool
    with pytest.raises(maypole.InvalidArgumentError, match="bool cannot be reduced"):
        session.all_reduce(value)


def test_a_shared_result_is_read_only_and_outlives_work_and_session(fake_library):
    with maypole.connect() as session:
        value = numpy.arange(6.0).reshape(2, 3)
        result = session.all_reduce(value, shared_result=True)
    gc.collect()
    assert (result == value).all() and result.shape == (2, 3) and result.ctypes.data == value.ctypes.data
    with pytest.raises(ValueError):
        result[0] = 1
    with pytest.raises(ValueError):
        result.flags.writeable = True


def test_a_reduce_scatter_returns_a_view_of_the_own_block(session):
    value = numpy.arange(6.0).reshape(2, 3)
    block = session.reduce_scatter(value, counts=[6])
    assert block.shape == (6,) and block.base is not None
    block[0] = 7
    assert value[0, 0] == 7


def test_counts_must_be_one_for_each_rank(session):
    with pytest.raises(maypole.InvalidArgumentError, match="2 counts were given for 1 ranks"):
        session.all_gather(numpy.zeros(4), counts=[2, 2])


@pytest.mark.parametrize("counts", [5, [-4], [2**64], [1.5], ["4"], "4", [[4]]])
def test_counts_are_numbers_of_elements(session, counts):
    for call in (session.all_gather, session.reduce_scatter):
        with pytest.raises(maypole.InvalidArgumentError, match="counts"):
            call(numpy.zeros(4), counts=counts)


def test_an_all_to_all_makes_its_output_or_takes_one_that_fits(session):
    value = torch.ones(4)
    assert session.all_to_all(value).shape == value.shape
    with pytest.raises(maypole.InvalidArgumentError, match="output has 3 elements of float32, the array has 4"):
        session.all_to_all(value, torch.ones(3))


def test_only_who_gets_a_result_needs_a_writable_array(session):
    value = numpy.ones(4)
    value.flags.writeable = False
    assert session.broadcast(value, root=0) is value
    assert session.send(value, 0) is value
    for refused in (lambda: session.recv(value, 0), lambda: session.reduce(value, 0), lambda: session.broadcast(value, 1)):
        with pytest.raises(maypole.InvalidArgumentError, match="read-only"):
            refused()


@pytest.mark.parametrize("rank", ["a", None, 0.0, 2**63, numpy.zeros(2)])
def test_a_root_is_a_rank(session, rank):
    for call in (session.broadcast, session.reduce, session.send, session.recv):
        with pytest.raises(maypole.InvalidArgumentError, match="(root|to|from_)=.* is no rank"):
            call(numpy.ones(1), rank)


def test_a_shared_result_of_a_torch_tensor_is_refused(session):
    with pytest.raises(maypole.InvalidArgumentError, match="numpy"):
        session.all_reduce(torch.zeros(3), shared_result=True)


@pytest.mark.parametrize("shape", [(), 0, 5, (2, 3), (2, 0)])
def test_empty_makes_zeroed_arrays_of_any_shape(session, shape):
    value = session.empty(shape, "float16")
    assert value.shape == numpy.empty(shape).shape and value.dtype == numpy.float16 and not value.any()
    tensor = session.empty(shape, torch.bfloat16)
    assert tensor.shape == torch.Size(value.shape) and tensor.dtype == torch.bfloat16 and not tensor.any()


def test_empty_refuses_what_no_memory_can_hold(session):
    with pytest.raises(maypole.InvalidArgumentError, match="more than any memory"):
        session.empty((2**40, 2**40))


def test_an_array_outlives_its_session_and_then_gives_its_memory_back(fake_library):
    before = counter(fake_library, "fake_open_sessions"), counter(fake_library, "fake_allocations")
    with maypole.connect() as session:
        value = session.empty(4)[1:]  # a view holds the memory too
    assert counter(fake_library, "fake_open_sessions") == before[0] + 1
    value[:] = 1
    assert value.sum() == 3
    del value
    assert (counter(fake_library, "fake_open_sessions"), counter(fake_library, "fake_allocations")) == before


def test_a_dropped_work_keeps_its_array_until_the_op_has_ended(fake_library):
    before = counter(fake_library, "fake_allocations"), counter(fake_library, "fake_ops")
    with maypole.connect() as session:
        session.all_reduce(session.empty(4), name="never", async_op=True)
        assert counter(fake_library, "fake_allocations") == before[0] + 1
        session.barrier()  # any submission looks after dropped ops
        assert counter(fake_library, "fake_allocations") == before[0] + 1
    assert (counter(fake_library, "fake_allocations"), counter(fake_library, "fake_ops")) == before


def test_ended_works_give_their_slots_back(session, fake_library):
    before = counter(fake_library, "fake_ops")
    for _ in range(100):
        session.all_reduce(numpy.zeros(3))
        session.all_reduce(numpy.zeros(3), async_op=True)
    assert counter(fake_library, "fake_ops") <= before


def test_closing_wakes_a_waiting_thread_with_an_error(fake_library):
    session = maypole.connect()
    work = session.barrier("never", async_op=True)
    caught = []

    def wait():
        try:
            work.wait()
        except maypole.Error as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    session.close()
    thread.join(5)
    assert isinstance(caught[0], maypole.FailedPreconditionError)


def test_a_closed_session_refuses_everything(fake_library):
    session = maypole.connect()
    session.close()
    session.close()
    value = numpy.zeros(3)
    for call in (lambda: session.all_reduce(value), session.barrier, lambda: session.empty(3), session.agent_stats):
        with pytest.raises(maypole.FailedPreconditionError, match="closed"):
            call()
    assert session.rank == 0 and "closed" in repr(session)


@pytest.mark.parametrize(
    "arguments, hint",
    [
        ({"op": "average"}, "average"),
        ({"op": None}, "op=None"),
        ({"op": torch.distributed.ReduceOp.BAND}, "op=.* is not one of sum, mean"),
        ({"algorithm": "star"}, "ring"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": -1.0}, "timeout=-1.0"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"priority": 2**31}, "32 bits"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"name": 5}, "name=5 must be a str"),
        ({"name": "\ud800"}, "is no text"),
        ({"shared_result": "no"}, "shared_result='no'"),
        ({"overwrite": None}, "overwrite=None"),
        ({"async_op": "no"}, "async_op='no'"),
        ({"name": ""}, "1 to 255"),
        ({"name": "é" * 128}, "1 to 255"),
        ({"name": "a\0b"}, "zero byte"),
    ],
)
def test_a_bad_argument_is_refused_with_its_value(session, arguments, hint):
    with pytest.raises(maypole.InvalidArgumentError, match=hint):
        session.all_reduce(numpy.zeros(3), **arguments)


def test_the_counters_come_by_name(session):
    stats = session.agent_stats()
    assert (stats.ops, stats.transfer_ns, stats.algorithm) == (7, 9, "ring")


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_missing_library_is_named_with_the_remedy():
    code, output = run_python("import maypole; maypole.connect()", MAYPOLE_LIBRARY="/no/such/libmaypole.so")
    assert code == 1 and "/no/such/libmaypole.so" in output and "cmake --preset release" in output


def test_a_library_of_another_version_is_refused():
    code, output = run_python("import maypole; maypole.connect()", MAYPOLE_LIBRARY="libc.so.6")
    assert code == 1 and "lacks maypole_" in output and "different versions" in output


def test_a_library_of_another_release_is_refused_with_both(tmp_path):
    library = tmp_path / "libmaypole.so"
    build_fake_library(library, "0.0.9")
    code, output = run_python("import maypole; maypole.connect()", MAYPOLE_LIBRARY=str(library))
    assert code == 1 and f"{library} is of version 0.0.9, the Python package of {maypole.__version__}" in output


@pytest.mark.parametrize("ending, code", [("", 0), ("; 1 / 0", 1), ("; raise SystemExit(3)", 3)])
def test_a_session_that_nobody_closed_is_left_at_exit(fake_library, ending, code):
    found, output = run_python("import maypole; session = maypole.connect()" + ending, FAKE_MAYPOLE_SAYS="1")
    assert (found, output.count("left")) == (code, 1)


def test_the_end_of_a_forked_child_does_not_leave_the_parents_job(fake_library):
    script = """
import maypole, os, sys
session = maypole.connect()
array = session.empty(4)
if os.fork() == 0:
    del array
    sys.exit(0)  # runs the child's exit handlers
os.wait()
array[:] = 1
print("parent")
session.close()
"""
    code, output = run_python(script, FAKE_MAYPOLE_SAYS="1")
    assert (code, output.split()) == (0, ["parent", "left"])


# Whatever the waiter does inside torch when the trainer ends: the process ends as the trainer wants.
COMPLETES_AT_EXIT = """
import threading, time, torch, maypole.torch
class Work:
    result = torch.zeros(1)
    def wait(self): pass
class Session:
    def all_reduce(self, *args, **kwargs): return Work()
state = maypole.torch.HookState(Session())
begun = threading.Event()
def callback(future):
    begun.set()
    time.sleep(0.2)  # without the interpreter's lock, which has to be taken again inside torch
    print("called back", flush=True)
gate = threading.Event()
Work.wait = lambda self: gate.wait()
future = state.reduce(0, torch.zeros(1)).then(callback)
gate.set()
begun.wait()
"""


def test_the_interpreter_ends_while_a_bucket_is_completed():
    code, output = run_python(COMPLETES_AT_EXIT)
    assert (code, output) == (0, "called back\n")
