"""Exceptions: one class per status of the C library. docs/errors.md says what a caller does about each."""

import builtins


def parse_culprits(text: str) -> dict[str, tuple[str, ...]]:
    """Parses "ranks=3,5;hosts=node-b" to {"ranks": ("3", "5"), "hosts": ("node-b",)}; skips what has no value."""
    culprits = {}
    for part in text.split(";"):
        key, separator, values = part.partition("=")
        items = tuple(value.strip() for value in values.split(",") if value.strip())
        if separator and items:
            culprits[key.strip()] = items
    return culprits


class Error(Exception):
    """Base of all exceptions of this package.

    Attributes:
        culprits: who caused it, as the agent told it, e.g. {"ranks": ("3",), "hosts": ("node-b",)}; empty if nobody in
            particular.
        ranks: the ranks among the culprits.
        hosts: the hosts among the culprits.
    """

    def __init__(self, message: str, culprits: str = "") -> None:
        super().__init__(message)
        self.culprits = parse_culprits(culprits)
        self._culprits_text = culprits

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str]]:  # exceptions cross processes in multiprocessing and torch
        return type(self), (str(self), self._culprits_text)

    @property
    def ranks(self) -> tuple[int, ...]:
        return self._numbers("ranks")

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.culprits.get("hosts", ())

    def _numbers(self, key: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self.culprits.get(key, ()) if value.isdigit())


class InvalidArgumentError(Error, ValueError):
    """A value of this call is wrong. Fix it; nothing was sent."""


class MismatchError(Error):
    """Ranks disagree on one op (dtype, count, reduction, ...). Every rank gets this text; nothing was moved."""


class PeerLostError(Error):
    """A rank, agent or node of the job is gone: see `ranks` and `hosts`. The input is as it was submitted."""


class TimeoutError(Error, builtins.TimeoutError):
    """The deadline passed. The input is as it was submitted."""

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The ranks that had not come; they run on `hosts`."""
        return self._numbers("waiting_ranks")


class AgentUnavailableError(Error, ConnectionError):
    """No agent answers at the socket, or it went away."""


class ResourceExhaustedError(Error):
    """Slots, segments or memory are used up. Wait for ops or free arrays, then try again."""


class FailedPreconditionError(Error):
    """Not possible now: the session is closed, or belongs to the parent of a fork; or the agent refuses the job or version."""


class InternalError(Error):
    """A bug of Maypole, contained. Please report the text."""


_BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgumentError,
    2: MismatchError,
    3: PeerLostError,
    4: TimeoutError,
    5: AgentUnavailableError,
    6: ResourceExhaustedError,
    7: FailedPreconditionError,
    8: InternalError,
}


def error_of(status: int, message: str, culprits: str = "") -> Error:
    """The exception for a status of the C library that is not 0."""
    return _BY_STATUS.get(status, InternalError)(message or f"the library gave status {status} and no text", culprits)
