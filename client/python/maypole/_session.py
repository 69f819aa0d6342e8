"""A rank's membership in a job, and the ops it submits."""

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

import numpy

from . import _arrays, _checks
from ._errors import FailedPreconditionError, InvalidArgumentError
from ._handle import Handle, Op, allocate, result_buffer
from ._library import OpOptions, CAgentStats, check, library
from ._work import Work

_REDUCTIONS = {"sum": 0, "mean": 1, "min": 2, "max": 3, "product": 4, "avg": 1, "prod": 4}
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
        op: Any = "sum",
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
            op: "sum", "mean" ("avg"), "min", "max" or "product" ("prod"), or one of torch.distributed.ReduceOp. Half types
                accumulate in float32. Integers wrap; their mean truncates toward zero.
            name: at most 255 bytes of UTF-8. The k-th op of a name meets the k-th of that name on the other ranks, in
                whatever order names come. Without a name, ops are matched in order of submission.
            timeout: seconds from submission until the op fails; None: the agent's default (300 s).
            priority: higher goes first.
            async_op: return a Work at once; the array must be left alone until Work.wait() has returned.
            algorithm: "auto", or to measure "ring", "direct", "tree", "double_tree", "halving" or "naive"; "hierarchical"
                where the job has levels.
            shared_result: leave `array` as it is; the result is a read-only numpy array, one copy for all ranks of the node.
            overwrite: if the op fails, `array` in session memory may hold anything: saves the agent a copy.

        Returns: with async_op a Work, else what Work.wait() returns: `array` or the shared result.

        Raises InvalidArgumentError for an array that cannot be taken as it lies, before anything is sent;
            FailedPreconditionError on a closed session and in a forked child; ResourceExhaustedError with 1024 ops in flight;
            and without async_op what Work.wait() raises.
        """
        memory = _arrays.memory_of(array, writable=not shared_result)
        options = _options(memory, name, timeout, priority, algorithm, op, shared_result, overwrite)
        finish = _sharer(array, memory) if shared_result else lambda _: array
        arguments = (memory.address, memory.count)
        return self._submit("maypole_all_reduce", arguments, options, memory.owner, finish, name, async_op)

    def reduce_scatter(
        self,
        array: Any,
        op: Any = "sum",
        *,
        counts: Optional[Sequence[int]] = None,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
        algorithm: str = "auto",
        overwrite: bool = False,
    ) -> Any:
        """Reduces `array` over all ranks; each rank gets one block of the result, in place: the rest stays as it is.

        Args:
            array: as for all_reduce; flattened, it is cut into one block for each rank, in the order of ranks.
            op: as for all_reduce.
            counts: the elements of each rank's block, 0 allowed; None: equal blocks, so that the world size must divide the
                number of elements. The same on all ranks.
            name, timeout, priority, async_op, overwrite: as for all_reduce.
            algorithm: "auto", or to measure "ring", "direct" or "tree".

        Returns: with async_op a Work, else what Work.wait() returns: this rank's block, a flat view of `array` (`array` itself
            if that is neither a numpy array nor a torch tensor).

        Raises as all_reduce.
        """
        memory = _arrays.memory_of(array, writable=True)
        blocks = _checks.counts(counts, self.world_size)
        options = _options(memory, name, timeout, priority, algorithm, op, False, overwrite)
        begin, end = self._own_block(memory.count, blocks)
        arguments = (memory.address, memory.count, self._table(blocks))
        finish = lambda _: _arrays.flat_view(array, begin, end)  # noqa: E731
        return self._submit("maypole_reduce_scatter", arguments, options, memory.owner, finish, name, async_op)

    def all_gather(
        self,
        array: Any,
        *,
        counts: Optional[Sequence[int]] = None,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
        algorithm: str = "auto",
        shared_result: bool = False,
    ) -> Any:
        """Gives every rank the blocks of all ranks, in place: each puts its own block into `array`, the others are written.

        Args:
            array: as for all_reduce, and also of bool; flattened, it is cut into one block for each rank, in the order of ranks.
                Only this rank's block is read.
            counts, algorithm: as for reduce_scatter.
            name, timeout, priority, async_op, shared_result: as for all_reduce.

        Returns: with async_op a Work, else what Work.wait() returns: `array` or the shared result.

        Raises as all_reduce. After a failure the own block is as submitted, the others may hold anything.
        """
        memory = _arrays.memory_of(array, writable=not shared_result, reduced=False)
        blocks = _checks.counts(counts, self.world_size)
        options = _options(memory, name, timeout, priority, algorithm, shared_result=shared_result)
        finish = _sharer(array, memory) if shared_result else lambda _: array
        arguments = (memory.address, memory.count, self._table(blocks))
        return self._submit("maypole_all_gather", arguments, options, memory.owner, finish, name, async_op)

    def broadcast(
        self,
        array: Any,
        root: int = 0,
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
        algorithm: str = "auto",
        shared_result: bool = False,
    ) -> Any:
        """Copies `array` of rank `root` into `array` of all others, which is not read there.

        Args:
            array: as for all_reduce, and also of bool. May be read-only on the root.
            root: a rank, the same on all.
            name, timeout, priority, async_op, shared_result: as for all_reduce.
            algorithm: as for reduce_scatter.

        Returns: with async_op a Work, else what Work.wait() returns: `array` or the shared result.

        Raises as all_reduce. After a failure `array` of the others may hold anything.
        """
        root = _checks.rank("root", root)
        memory = _arrays.memory_of(array, writable=self.rank != root and not shared_result, reduced=False)
        options = _options(memory, name, timeout, priority, algorithm, shared_result=shared_result)
        finish = _sharer(array, memory) if shared_result else lambda _: array
        arguments = (memory.address, memory.count, root)
        return self._submit("maypole_broadcast", arguments, options, memory.owner, finish, name, async_op)

    def reduce(
        self,
        array: Any,
        root: int = 0,
        op: Any = "sum",
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
        algorithm: str = "auto",
        overwrite: bool = False,
    ) -> Any:
        """Reduces `array` over all ranks; only rank `root` gets the result, in place. The others' arrays stay as they are.

        Arguments as all_reduce and broadcast. Returns: with async_op a Work, else `array`. Raises as all_reduce.
        """
        root = _checks.rank("root", root)
        memory = _arrays.memory_of(array, writable=self.rank == root)
        options = _options(memory, name, timeout, priority, algorithm, op, False, overwrite)
        arguments = (memory.address, memory.count, root)
        return self._submit("maypole_reduce", arguments, options, memory.owner, lambda _: array, name, async_op)

    def all_to_all(
        self,
        array: Any,
        output: Any = None,
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
    ) -> Any:
        """Sends block r of `array` to each rank r, and puts what comes from rank r into block r of `output`.

        Args:
            array: as for all_reduce, and also of bool; never written; flattened, it is cut into one block for each rank, all equal.
            output: an array of the same dtype and number of elements, apart from `array`; None: a new one like `array`.
            name, timeout, priority, async_op: as for all_reduce.

        Returns: with async_op a Work, else what Work.wait() returns: `output`.

        Raises as all_reduce. After a failure `output` may hold anything.
        """
        memory = _arrays.memory_of(array, writable=False, reduced=False)
        if output is None:
            output = _arrays.empty_like(array)
        target = _arrays.memory_of(output, writable=True, reduced=False)
        if (target.dtype, target.count) != (memory.dtype, memory.count):
            raise InvalidArgumentError(
                f"output has {target.count} elements of {_arrays.dtype_name(target.dtype)}, the array has {memory.count} of "
                f"{_arrays.dtype_name(memory.dtype)}; they must agree"
            )
        options = _options(memory, name, timeout, priority)
        arguments = (memory.address, target.address, memory.count)
        owners = (memory.owner, target.owner)
        return self._submit("maypole_all_to_all", arguments, options, owners, lambda _: output, name, async_op)

    def send(
        self,
        array: Any,
        to: int,
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
    ) -> Any:
        """Sends `array` to rank `to`, which calls recv. Nobody else takes part.

        The k-th send of a name to a rank meets the k-th recv of that name there. Both ranks must agree on dtype, which may be
        bool, and number of elements.

        Returns: with async_op a Work, else `array`, when it may be used again. Arguments and errors as all_reduce.
        """
        memory = _arrays.memory_of(array, writable=False, reduced=False)
        options = _options(memory, name, timeout, priority)
        arguments = (memory.address, memory.count, _checks.rank("to", to))
        return self._submit("maypole_send", arguments, options, memory.owner, lambda _: array, name, async_op)

    def recv(
        self,
        array: Any,
        from_: int,
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        async_op: bool = False,
    ) -> Any:
        """Receives into `array` what rank `from_` sends: see send.

        Returns: with async_op a Work, else `array`. After a failure it may hold anything. Arguments and errors as all_reduce.
        """
        memory = _arrays.memory_of(array, writable=True, reduced=False)
        options = _options(memory, name, timeout, priority)
        arguments = (memory.address, memory.count, _checks.rank("from_", from_))
        return self._submit("maypole_recv", arguments, options, memory.owner, lambda _: array, name, async_op)

    def barrier(
        self, name: Optional[str] = None, *, timeout: Optional[float] = None, async_op: bool = False
    ) -> Optional[Work]:
        """Returns when all ranks have come here. Arguments and errors as all_reduce; with async_op returns a Work."""
        arguments = (_checks.name(name), _checks.seconds(timeout))
        return self._submit("maypole_barrier", arguments, None, None, lambda _: None, name, async_op)

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

    def _submit(
        self,
        function: str,
        arguments: tuple[Any, ...],
        options: Optional[OpOptions],
        owner: Any,
        finish: Callable[[Op], Any],
        name: Optional[str],
        async_op: bool,
    ) -> Any:
        """Calls the C function with its arguments, the options if it takes some, and a place for the op."""
        handle = self._open_handle()
        _checks.flag("async_op", async_op)
        pointer = ctypes.c_void_p()
        handle.free_ended_ops()
        given = (ctypes.byref(options),) if options is not None else ()
        check(getattr(library(), function)(handle.pointer, *arguments, *given, ctypes.byref(pointer)))
        work = Work(Op(handle, pointer.value or 0, owner), finish, name)
        return work if async_op else work.wait()

    @staticmethod
    def _table(counts: Optional[list[int]]) -> Any:
        """`counts` as a C table; read during the call only."""
        return None if counts is None else (ctypes.c_uint64 * len(counts))(*counts)

    def _own_block(self, elements: int, counts: Optional[list[int]]) -> tuple[int, int]:
        if counts is None:
            block = elements // self.world_size
            return self.rank * block, (self.rank + 1) * block
        begin = sum(counts[: self.rank])
        return begin, begin + counts[self.rank]

    @staticmethod
    def _allocate(handle: Handle, size: int) -> "ctypes.Array[ctypes.c_char]":
        if size >= 2**63:
            raise InvalidArgumentError(f"{size} bytes is more than any memory: check the shape")
        return allocate(handle, size)


def _options(
    memory: _arrays.Memory,
    name: Optional[str],
    timeout: Optional[float],
    priority: int,
    algorithm: str = "auto",
    op: Any = "sum",
    shared_result: bool = False,
    overwrite: bool = False,
) -> OpOptions:
    return OpOptions(
        dtype=memory.dtype,
        reduction=_checks.choice("op", _arrays.reduction_name(op), _REDUCTIONS),
        name=_checks.name(name),
        priority=_checks.integer("priority", priority, -(2**31), 2**31 - 1, "number of 32 bits"),
        timeout=_checks.seconds(timeout),
        algorithm=_checks.choice("algorithm", algorithm, _ALGORITHMS),
        shared_result=_checks.flag("shared_result", shared_result),
        overwrite=_checks.flag("overwrite", overwrite),
    )


def _sharer(array: Any, memory: _arrays.Memory) -> Callable[[Op], numpy.ndarray]:
    """Makes the shared result of an op into an array like `array`. Refuses now what would fail later."""
    if _arrays.is_torch_tensor(array):
        raise InvalidArgumentError("a shared result is read-only, which torch tensors cannot be: pass tensor.numpy()")
    name = _arrays.dtype_name(memory.dtype)
    dtype = array.dtype if isinstance(array, numpy.ndarray) else _arrays.numpy_dtype(name)
    shape = tuple(getattr(array, "shape", (memory.count,)))

    def share(op: Op) -> numpy.ndarray:
        size = memory.count * dtype.itemsize
        return numpy.frombuffer(result_buffer(op, size) if size else b"", dtype=dtype).reshape(shape)

    return share
