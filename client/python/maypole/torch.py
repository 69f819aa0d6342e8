"""Maypole for PyTorch: the communication hook of DistributedDataParallel.

    session = maypole.connect()
    model = torch.nn.parallel.DistributedDataParallel(model)   # any process group; it carries no gradient
    model.register_comm_hook(session, maypole.torch.allreduce_hook)

Works with torch 1.13 and later.
"""

import atexit
import os
import queue
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch
import torch.distributed

from ._session import Session
from ._work import Work


# Held while a future is completed. A daemon thread that is inside torch when the interpreter ends takes the process with it
# ("terminate called without an active exception"), so the end of the interpreter waits for it and lets no other begin.
_completing = threading.Lock()


def _renew_lock() -> None:
    global _completing
    _completing = threading.Lock()


atexit.register(lambda: _completing.acquire())
os.register_at_fork(after_in_child=_renew_lock)  # its holder may not live on in the child


@dataclass
class HookStats:
    """Sums over all buckets since the hook's first; seconds of the monotonic clock."""

    buckets: int = 0
    bytes: int = 0
    failures: int = 0
    last_submission: float = 0.0  # when the latest bucket was submitted: what backward does after it is wait


@dataclass
class _Bucket:
    future: Any  # torch.futures.Future
    work: Optional[Work]
    error: Optional[Exception]


class HookState:
    """What the hook keeps for one model: a session, a prefix of names, a thread that waits.

    Pass the Session itself to register_comm_hook unless several models train over one session at a time: then give each a
    HookState with a prefix of its own, the same on all ranks.

    Threads: backward calls the hook on autograd's threads, one bucket at a time. One daemon thread per HookState waits for the
        buckets in the order of their submission and completes their futures; it sleeps while there is none, and ends with the
        HookState. Buckets travel at the same time, in the order of their priorities.

    Attributes:
        stats: counts and times.
        error: the error of the latest failed bucket, with its `ranks` and `hosts`: backward can raise only its text.
    """

    def __init__(self, session: Session, prefix: str = "ddp", timeout: Optional[float] = None) -> None:
        """timeout: seconds per bucket, from its submission; None: the agent's default."""
        self.session = session
        self.prefix = prefix
        self.timeout = timeout
        self.stats = HookStats()
        self.error: Optional[Exception] = None
        self._queue: queue.SimpleQueue[Optional[_Bucket]] = queue.SimpleQueue()
        self._waiter: Optional[threading.Thread] = None

    def reduce(self, index: int, tensor: torch.Tensor) -> "torch.futures.Future[torch.Tensor]":
        """Submits the mean of a bucket; the future gives `tensor`, reduced, or raises RuntimeError.

        Never raises itself: torch's reducer does not survive that.
        """
        bucket = _Bucket(torch.futures.Future(), None, None)
        result = bucket.future.then(_result)
        try:
            # DDP's first bucket holds the last layers. The next forward pass needs the first layers first.
            name = f"{self.prefix}/bucket/{index}"
            bucket.work = self.session.all_reduce(
                tensor, "mean", name=name, priority=index, timeout=self.timeout, async_op=True
            )
        except Exception as error:
            bucket.error = error
        self.stats.buckets += 1
        self.stats.bytes += tensor.numel() * tensor.element_size()
        self.stats.last_submission = time.monotonic()
        self._start_waiter()
        self._queue.put(bucket)
        return result

    def _start_waiter(self) -> None:
        if self._waiter is None or not self._waiter.is_alive():  # the first bucket, also of a forked child
            # The thread holds the state weakly, so that it does not keep alive what its end depends on.
            arguments = (weakref.ref(self), self._queue)
            self._waiter = threading.Thread(target=_wait_in_order, args=arguments, name="maypole hook", daemon=True)
            self._waiter.start()

    def __del__(self) -> None:
        self._queue.put(None)


def allreduce_hook(
    state: Union[Session, HookState], bucket: torch.distributed.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """DDP communication hook: the mean of each gradient bucket over all ranks of the session, by Maypole.

    Args:
        state: a Session, or a HookState.
        bucket: from DDP; float32, float64, float16 or bfloat16, in host memory.

    Returns: a future of the bucket's tensor, complete when its op is done; backward goes on meanwhile.

    Raises nothing itself. If an op fails, `loss.backward()` raises RuntimeError with the text of the maypole.Error
    ("maypole.PeerLostError: ..."); HookState.error has the error itself. The gradients of that step are not to be used; the
    next step with the same model works if its ops do.
    """
    return hook_state(state).reduce(bucket.index(), bucket.buffer())


def hook_state(state: Union[Session, HookState]) -> HookState:
    """The HookState that stands behind a Session that was given as the hook's state."""
    if isinstance(state, HookState):
        return state
    if state._hook_state is None:
        state._hook_state = HookState(state)
    return state._hook_state


def _wait_in_order(state: "weakref.ref[HookState]", buckets: "queue.SimpleQueue[Optional[_Bucket]]") -> None:
    while True:
        bucket = buckets.get()
        if bucket is None:
            return
        try:
            if bucket.work is not None:
                bucket.work.wait()
        except Exception as error:
            bucket.error = error
        owner = state()
        if owner is not None and bucket.error is not None:
            owner.error = bucket.error
            owner.stats.failures += 1
        del owner
        # Completed normally in either case: torch 1.13 cannot report a future that ends with an exception, but one
        # whose `then` raises.
        with _completing:
            bucket.future.set_result(bucket)
        del bucket


def _result(future: "torch.futures.Future[Any]") -> torch.Tensor:
    bucket = future.value()
    if bucket.error is not None:
        raise RuntimeError(f"maypole.{type(bucket.error).__name__}: {bucket.error}")
    return bucket.work.result
