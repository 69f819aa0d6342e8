"""An op in flight."""

import threading
from collections.abc import Callable
from typing import Any, Optional

from ._errors import error_of
from ._handle import Op
from ._library import library

# While a C call runs, Python cannot run its signal handlers. So a wait is made of C calls of this length, and Ctrl-C is heard
# between them. The op's end cuts a call short: this is no polling interval, and ten wake-ups a second cost nothing.
_WAIT_SLICE_SECONDS = 0.1


class Work:
    """What an asynchronous call returns. Any thread may use it.

    Keeps the array alive. A Work that is dropped before its op has ended leaves the op running, but the result reaches an array
    in ordinary memory only by wait().
    """

    def __init__(self, op: Op, finish: Callable[[Op], Any], name: Optional[str]) -> None:
        self.name = name
        self._op: Optional[Op] = op
        self._finish = finish  # makes the result when the op has succeeded
        self._failure: Optional[tuple[int, str, str]] = None
        self._result: Any = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        state = "in flight" if not self.test() else "failed" if self._failure else "ended"
        return f"<maypole.Work {self.name!r} {state}>"

    def test(self) -> bool:
        """True if wait() would return, or raise, at once. Never blocks."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits
        try:
            return self._op is None or bool(library().maypole_test(self._op.pointer))
        finally:
            self._lock.release()

    def wait(self) -> Any:
        """Waits for the end; returns the result, as the method that made this says.

        May be called again, from any thread. Sleeps without the GIL; Ctrl-C ends the wait (within 0.1 s) and leaves the op in
        flight. The time is bounded by the op's timeout.

        Raises MismatchError, PeerLostError, TimeoutError or another maypole.Error; what the op reads of the array is then as it
        was submitted (with overwrite=True: unspecified).
        """
        with self._lock:
            if self._op is not None:
                self._end(self._op)
        if self._failure is not None:
            raise error_of(*self._failure)
        return self._result

    @property
    def result(self) -> Any:
        """The same as wait()."""
        return self.wait()

    def _end(self, op: Op) -> None:
        while not library().maypole_wait_for(op.pointer, _WAIT_SLICE_SECONDS):
            pass
        status = library().maypole_wait(op.pointer)
        if status:
            message = (library().maypole_last_error() or b"").decode("utf-8", "replace")
            culprits = (library().maypole_last_error_culprits() or b"").decode("utf-8", "replace")
            self._failure = (status, message, culprits)
        else:
            self._result = self._finish(op)
        self._op = None
