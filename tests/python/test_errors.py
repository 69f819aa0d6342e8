import builtins
import pickle

import pytest

import maypole
from maypole._errors import error_of, parse_culprits


@pytest.mark.parametrize(
    "text, parsed",
    [
        ("", {}),
        ("ranks=3", {"ranks": ("3",)}),
        ("ranks=3,5;hosts=node-b", {"ranks": ("3", "5"), "hosts": ("node-b",)}),
        ("ranks=;hosts=a, b", {"hosts": ("a", "b")}),
        ("nonsense;ranks=1", {"ranks": ("1",)}),
    ],
)
def test_culprits_are_parsed_by_any_key(text, parsed):
    assert parse_culprits(text) == parsed


def test_every_status_has_its_exception():
    kinds = [type(error_of(status, "x")).__name__ for status in range(1, 9)]
    assert kinds == [
        "InvalidArgumentError",
        "MismatchError",
        "PeerLostError",
        "TimeoutError",
        "AgentUnavailableError",
        "ResourceExhaustedError",
        "FailedPreconditionError",
        "InternalError",
    ]
    assert all(isinstance(error_of(status, "x"), maypole.Error) for status in range(1, 9))


def test_an_unknown_status_is_an_internal_error_with_a_text():
    error = error_of(99, "")
    assert isinstance(error, maypole.InternalError)
    assert "99" in str(error)


def test_the_errors_are_caught_as_python_users_expect():
    assert issubclass(maypole.TimeoutError, builtins.TimeoutError)
    assert issubclass(maypole.InvalidArgumentError, ValueError)
    assert issubclass(maypole.AgentUnavailableError, ConnectionError)


def test_an_error_keeps_its_culprits_between_processes():
    error = pickle.loads(pickle.dumps(maypole.PeerLostError("rank 3 is gone", "ranks=3;hosts=node-b")))
    assert (str(error), error.ranks, error.hosts) == ("rank 3 is gone", (3,), ("node-b",))


def test_a_timeout_tells_for_whom_it_waited():
    assert error_of(4, "late", "waiting_ranks=2,7;hosts=a,b").waiting_for == (2, 7)
