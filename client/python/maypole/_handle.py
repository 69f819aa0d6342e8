"""Owns the C session, its memory and its ops, so that nothing is unmapped while Python can still see it.

A Handle is closed by Python's reference counting: when the Session has left the job *and* the last array from empty(), the
last shared result and the last op are gone. Closing a session therefore never turns a living array into a crash.
"""

import collections
import ctypes
import os
from typing import Any

from ._library import check, library


class Handle:
    """A maypole_session. Any thread may use it; so do the C functions."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        self._owner_pid = os.getpid()
        # (maypole_op, what must stay alive until it ends). A deque needs no lock, which a destructor could not take.
        self._abandoned: collections.deque[tuple[int, Any]] = collections.deque()

    def is_ours(self) -> bool:
        """False in a forked child: the session is the parent's, and the child's clean-up must not touch it."""
        return os.getpid() == self._owner_pid

    def leave(self) -> None:
        """Leaves the job, which ends all ops. What is mapped stays mapped."""
        if self.is_ours():
            library().maypole_leave(self.pointer)
            self.free_ended_ops()  # their arrays may be what keeps this handle alive

    def free_op(self, op: int, owner: Any) -> None:
        """Frees an op that nobody waits for any more, or keeps it with its memory until it has ended."""
        if not self.is_ours():
            return
        if library().maypole_test(op):
            library().maypole_op_free(op)
        else:
            self._abandoned.append((op, owner))

    def free_ended_ops(self) -> None:
        for _ in range(len(self._abandoned)):
            try:
                self.free_op(*self._abandoned.popleft())
            except IndexError:  # another thread frees them
                return

    def __del__(self) -> None:
        if self.is_ours():
            self.leave()
            library().maypole_close(self.pointer)


class Op:
    """A maypole_op and the memory it works on. One thread at a time."""

    def __init__(self, handle: Handle, pointer: int, owner: Any) -> None:
        self._handle = handle
        self.pointer = pointer
        self._owner = owner

    def __del__(self) -> None:
        self._handle.free_op(self.pointer, self._owner)


class _Allocation:
    def __init__(self, handle: Handle, pointer: int) -> None:
        self._handle = handle
        self._pointer = pointer

    def __del__(self) -> None:
        if self._handle.is_ours():
            library().maypole_free(self._handle.pointer, self._pointer)


def allocate(handle: Handle, size: int) -> "ctypes.Array[ctypes.c_char]":
    """`size` > 0 bytes of zeroed session memory as a writable buffer; freed with the last reference to the buffer."""
    pointer = ctypes.c_void_p()
    check(library().maypole_alloc(handle.pointer, size, ctypes.byref(pointer)))
    address = pointer.value or 0
    return _buffer(address, size, _Allocation(handle, address))


def result_buffer(op: Op, size: int) -> memoryview:
    """The shared result of an op that has ended, read-only; the op lives as long as the buffer."""
    address = library().maypole_op_result(op.pointer)
    return memoryview(_buffer(address, size, op)).toreadonly()


def _buffer(address: Any, size: int, owner: Any) -> "ctypes.Array[ctypes.c_char]":
    buffer = (ctypes.c_char * size).from_address(address)
    buffer.owner = owner  # type: ignore[attr-defined]  # a ctypes array has attributes: this one makes it own what it shows
    return buffer
