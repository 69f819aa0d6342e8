"""Joining a job."""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Optional, Union

from . import _checks
from ._errors import InvalidArgumentError
from ._handle import Handle
from ._library import ConnectOptions, check, library
from ._session import Session


def connect(
    socket: Union[str, "os.PathLike[str]", None] = None,
    job: Optional[str] = None,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    timeout: Optional[float] = None,
    deterministic: bool = False,
) -> Session:
    """Joins a job by this node's agent and waits until all of its ranks have joined.

    Args:
        socket: path of the agent's socket; None: MAYPOLE_SOCKET, else /run/maypole/agent.sock.
        job: name of the job; None: MAYPOLE_JOB, else "default".
        rank: of this process, from 0; None: RANK. Give both rank and world_size, or neither.
        world_size: how many ranks the job has; None: WORLD_SIZE.
        timeout: seconds until all ranks must have joined; None: 60.
        deterministic: the same inputs, world and ranks per node give the same bits in every run, however tensors are
            bucketed: sums are "direct", or "naive" where asked for, and always in the order of ranks. Also by
            MAYPOLE_DETERMINISTIC=1. For all ranks or for none.

    Raises AgentUnavailableError if no agent answers, InvalidArgumentError or FailedPreconditionError if it refuses (rank taken,
        another world size, another version), TimeoutError if ranks are missing.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(
            f"rank={rank} and world_size={world_size}: give both, or neither to take them from the environment"
        )
    size = 0 if world_size is None else _checks.integer("world_size", world_size, 1, _checks.INT64_MAX, "number of ranks")
    options = ConnectOptions(
        socket=_checks.path("socket", socket),
        job=_checks.text("job", job),
        rank=0 if rank is None else _checks.integer("rank", rank, 0, size - 1, f"rank of {size}"),
        world_size=size,
        timeout=_checks.seconds(timeout),
        deterministic=_checks.flag("deterministic", deterministic),
    )

    def join() -> Handle:
        pointer = ctypes.c_void_p()
        check(library().maypole_connect(ctypes.byref(options), ctypes.byref(pointer)))
        return Handle(pointer.value or 0)

    return Session(_interruptible(join))


def _interruptible(join: Callable[[], Handle]) -> Handle:
    """Runs `join` so that Ctrl-C ends the wait for it. Python hears signals only between C calls, and this C call may take a
    minute: it runs on a thread of its own. If nobody waits for it any more, its Handle dies with the thread, which leaves
    the job."""
    outcome: list[Handle] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(join())
        except BaseException as error:  # raised again in the caller's thread
            failure.append(error)
        ended.set()

    ended = threading.Event()
    threading.Thread(target=run, name="maypole connect", daemon=True).start()
    ended.wait()
    if failure:
        raise failure[0]
    return outcome.pop()
