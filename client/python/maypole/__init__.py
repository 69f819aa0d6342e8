"""Maypole: sums gradients for data-parallel training in an agent on each node.

    import maypole
    import numpy

    with maypole.connect() as session:            # RANK, WORLD_SIZE, MAYPOLE_SOCKET, MAYPOLE_JOB from the environment
        gradient = session.empty(1_000_000, "float32")   # in memory that the agent reads in place
        gradient[:] = session.rank
        session.all_reduce(gradient, op="mean", name="layer1")

maypole.torch has the communication hook for torch's DistributedDataParallel. docs/python.md is the guide.
"""

from ._connect import connect
from ._errors import (
    AgentUnavailableError,
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    PeerLostError,
    ResourceExhaustedError,
    TimeoutError,
)
from ._session import AgentStats, Session
from ._version import __version__
from ._work import Work

__all__ = [
    "AgentStats",
    "AgentUnavailableError",
    "Error",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "MismatchError",
    "PeerLostError",
    "ResourceExhaustedError",
    "Session",
    "TimeoutError",
    "Work",
    "connect",
]
