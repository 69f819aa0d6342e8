"""A rank's membership in a job, and the ops it submits."""

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

import numpy

from . import _arrays
from ._errors import FailedPreconditionError, InvalidArgumentError
from ._handle import Handle, Op, allocate, result_buffer
from ._library import AllReduceOptions, CAgentStats, check, library
from ._work import Work

_REDUCTIONS = {"sum": 0, "mean": 1, "min": 2, "max": 3, "product": 4}
_ALGORITHMS = {
    "auto": 0,
    "ring": 1,
    "direct": 2,
    "naive": 3,
    "tree": 4,
    "double_tree": 5,
    "halving": 6,
    "hierarchical": 7,  # refused where the job has no levels
}
_NAME_BYTES_MAX = 255


@dataclass(frozen=True)
class AgentStats:
    """Counters of this node's agent since its start, over all jobs. All only grow, but resident_bytes."""

    ops: int
    wire_sent_bytes: int  # as counted by the transport
    wire_received_bytes: int
    cpu_ns: int  # user and system time of the agent process
    resident_bytes: int
    local_sum_ns: int  # summing, on any thread
    wait_ns: int  # ops waiting for ranks or agents that had not submitted
    transfer_ns: int  # ops from start to completion
    algorithm: str  # of the last op


class Session:
    """A rank in a job; made by maypole.connect(). A context manager: leaves the job at the end of the block.

    Any thread may use it. A forked child may not: its calls raise FailedPreconditionError, and its exit harms nothing.

    Attributes:
        rank: of this process, from 0.
        world_size: ranks in the job.
        local_rank: of this process among those of its node, from 0.
        local_world_size: ranks of the job on this node.
        nodes: nodes in the job.
    """

    def __init__(self, handle: Handle) -> None:
        """Use maypole.connect()."""
        self._handle: Optional[Handle] = handle
        # Runs at close(), at garbage collection or at the interpreter's exit, whichever comes first: a rank that ends in
        # peace says goodbye, and is not mourned as lost.
        self._leave = weakref.finalize(self, Handle.leave, handle)
        self.rank: int = library().maypole_rank(handle.pointer)
        self.world_size: int = library().maypole_world_size(handle.pointer)
        self.local_rank: int = library().maypole_local_rank(handle.pointer)
        self.local_world_size: int = library().maypole_local_world_size(handle.pointer)
        self.nodes: int = library().maypole_nodes(handle.pointer)
        self._hook_state: Any = None  # of maypole.torch

    def __repr__(self) -> str:
        state = "" if self._handle else " closed"
        return f"<maypole.Session rank {self.rank} of {self.world_size}{state}>"

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the job; ops in flight end with FailedPreconditionError. May be called again.

        Arrays from empty() and shared results stay readable and writable; their memory goes back with the last of them.
        """
        self._leave()
        self._handle = None

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
        """An array in the memory that this rank and its agent share: reducing it copies nothing.

        Args:
            shape: an int or a sequence of ints.
            dtype: a numpy dtype or its name gives a numpy array; a torch dtype gives a torch tensor, e.g. torch.bfloat16.

        Returns: the array, contiguous, 64-byte aligned and zeroed. Its memory goes back with the last view of it.

        Raises InvalidArgumentError, or ResourceExhaustedError if the agent grants no more memory.
        """
        handle = self._open_handle()
        shape = _arrays.shape_of(shape)
        if _arrays.is_torch_dtype(dtype):
            import torch

            _arrays.dtype_code(_arrays.torch_dtype_name(dtype))
            size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
            if size == 0:
                return torch.empty(shape, dtype=dtype)
            return torch.frombuffer(self._allocate(handle, size), dtype=dtype).reshape(shape)
        dtype = _arrays.numpy_dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            return numpy.empty(shape, dtype)
        return numpy.frombuffer(self._allocate(handle, size), dtype=dtype).reshape(shape)

    def all_reduce(
        self,
        array: Any,
        op: str = "sum",
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
        algorithm: str = "auto",
        shared_result: bool = False,
        overwrite: bool = False,
    ) -> Any:
        """Reduces `array` element by element over all ranks; every rank gets the same bytes.

        Args:
            array: numpy array, torch CPU tensor, or anything with the buffer protocol or DLPack; of any shape, also 0-d or
                with no elements; contiguous; float32, float64, float16, bfloat16, int8, uint8, int32 or int64. Ranks must
                agree on dtype and number of elements, not on shape. Reduced in place, unless shared_result.
            op: "sum", "mean", "min", "max" or "product". Half types accumulate in float32. Integers wrap; their mean
                truncates toward zero.
            name: at most 255 bytes of UTF-8. The k-th op of a name meets the k-th of that name on the other ranks, in
                whatever order names come. Without a name, ops are matched in order of submission.
            timeout: seconds from submission until the op fails; None: the agent's default (300 s).
            priority: higher goes first.
            async_op: return a Work at once; the array must be left alone until Work.wait() has returned.
            algorithm: "auto", or to measure "ring", "direct", "tree", "double_tree", "halving" or "naive".
            shared_result: leave `array` as it is; the result is a read-only numpy array, one copy for all ranks of the node.
            overwrite: if the op fails, `array` in session memory may hold anything: saves the agent a copy.

        Returns: with async_op a Work, else what Work.wait() returns: `array` or the shared result.

        Raises InvalidArgumentError for an array that cannot be taken as it lies, before anything is sent;
            FailedPreconditionError on a closed session and in a forked child; ResourceExhaustedError with 1024 ops in flight;
            and without async_op what Work.wait() raises.
        """
        handle = self._open_handle()
        memory = _arrays.memory_of(array, writable=not shared_result)
        options = AllReduceOptions(
            dtype=memory.dtype,
            reduction=_choice("op", op, _REDUCTIONS),
            name=_name(name),
            priority=_int32("priority", priority),
            timeout=_seconds(timeout),
            algorithm=_choice("algorithm", algorithm, _ALGORITHMS),
            shared_result=int(shared_result),
            overwrite=int(overwrite),
        )
        finish = _sharer(array, memory) if shared_result else lambda _: array
        pointer = ctypes.c_void_p()
        handle.free_ended_ops()
        check(
            library().maypole_all_reduce(
                handle.pointer, memory.address, memory.count, ctypes.byref(options), ctypes.byref(pointer)
            )
        )
        work = Work(Op(handle, pointer.value or 0, memory.owner), finish, name)
        return work if async_op else work.wait()

    def barrier(
        self, name: Optional[str] = None, *, timeout: Optional[float] = None, async_op: bool = False
    ) -> Optional[Work]:
        """Returns when all ranks have come here. Arguments and errors as all_reduce; with async_op returns a Work."""
        handle = self._open_handle()
        pointer = ctypes.c_void_p()
        handle.free_ended_ops()
        check(library().maypole_barrier(handle.pointer, _name(name), _seconds(timeout), ctypes.byref(pointer)))
        work = Work(Op(handle, pointer.value or 0, None), lambda _: None, name)
        return work if async_op else work.wait()

    def agent_stats(self) -> AgentStats:
        """The counters of this node's agent, for benchmarks and tests."""
        stats = CAgentStats()
        check(library().maypole_get_agent_stats(self._open_handle().pointer, ctypes.byref(stats)))
        values = {field: getattr(stats, field) for field in AgentStats.__dataclass_fields__}
        values["algorithm"] = stats.algorithm.decode()
        return AgentStats(**values)

    def _open_handle(self) -> Handle:
        if self._handle is None:
            raise FailedPreconditionError("the session is closed: connect again")
        return self._handle

    @staticmethod
    def _allocate(handle: Handle, size: int) -> "ctypes.Array[ctypes.c_char]":
        if size >= 2**63:
            raise InvalidArgumentError(f"{size} bytes is more than any memory: check the shape")
        return allocate(handle, size)


def _sharer(array: Any, memory: _arrays.Memory) -> Callable[[Op], numpy.ndarray]:
    """Makes the shared result of an op into an array like `array`. Refuses now what would fail later."""
    if _arrays.is_torch_tensor(array):
        raise InvalidArgumentError("a shared result is read-only, which torch tensors cannot be: pass tensor.numpy()")
    names = {code: name for name, code in _arrays.DTYPE_CODES.items()}
    dtype = array.dtype if isinstance(array, numpy.ndarray) else _arrays.numpy_dtype(names[memory.dtype])
    shape = tuple(getattr(array, "shape", (memory.count,)))

    def share(op: Op) -> numpy.ndarray:
        size = memory.count * dtype.itemsize
        return numpy.frombuffer(result_buffer(op, size) if size else b"", dtype=dtype).reshape(shape)

    return share


def _choice(what: str, value: str, choices: dict[str, int]) -> int:
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise InvalidArgumentError(f"{what}={value!r} is not one of {', '.join(choices)}") from None


def _name(name: Optional[str]) -> Optional[bytes]:
    if name is None:
        return None
    encoded = name.encode()
    if not 0 < len(encoded) <= _NAME_BYTES_MAX or b"\0" in encoded:
        raise InvalidArgumentError(f"name {name!r} must have 1 to {_NAME_BYTES_MAX} bytes of UTF-8, none of them zero")
    return encoded


def _seconds(timeout: Optional[float]) -> float:
    if timeout is None:
        return 0.0  # the library's default
    if not 0 < timeout < math.inf:
        raise InvalidArgumentError(f"timeout={timeout!r} must be a positive number of seconds, or None for the default")
    return float(timeout)


def _int32(what: str, value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise InvalidArgumentError(f"{what}={value!r} does not fit 32 bits")
    return value
