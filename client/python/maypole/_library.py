"""Finds libmaypole.so and declares its C functions for ctypes. Mirrors client/include/maypole/maypole.h."""

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import NoReturn

from ._errors import Error, error_of
from ._version import __version__

NAME = "libmaypole.so"


class ConnectOptions(Structure):
    _fields_ = [
        ("socket", c_char_p),
        ("job", c_char_p),
        ("rank", c_int64),
        ("world_size", c_int64),
        ("timeout", c_double),
        ("deterministic", c_int),
    ]


class OpOptions(Structure):
    _fields_ = [
        ("dtype", c_int),
        ("reduction", c_int),
        ("name", c_char_p),
        ("priority", c_int),
        ("timeout", c_double),
        ("algorithm", c_int),
        ("shared_result", c_int),
        ("overwrite", c_int),
    ]


class CAgentStats(Structure):
    _fields_ = [
        ("ops", c_uint64),
        ("wire_sent_bytes", c_uint64),
        ("wire_received_bytes", c_uint64),
        ("cpu_ns", c_uint64),
        ("resident_bytes", c_uint64),
        ("local_sum_ns", c_uint64),
        ("wait_ns", c_uint64),
        ("transfer_ns", c_uint64),
        ("algorithm", c_char * 16),
    ]


# name: (result, arguments)
_PROTOTYPES = {
    "maypole_connect": (c_int, [POINTER(ConnectOptions), POINTER(c_void_p)]),
    "maypole_leave": (None, [c_void_p]),
    "maypole_close": (None, [c_void_p]),
    "maypole_rank": (c_int64, [c_void_p]),
    "maypole_world_size": (c_int64, [c_void_p]),
    "maypole_local_rank": (c_int64, [c_void_p]),
    "maypole_local_world_size": (c_int64, [c_void_p]),
    "maypole_nodes": (c_int64, [c_void_p]),
    "maypole_alloc": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "maypole_free": (c_int, [c_void_p, c_void_p]),
    "maypole_all_reduce": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_reduce_scatter": (
        c_int,
        [c_void_p, c_void_p, c_uint64, POINTER(c_uint64), POINTER(OpOptions), POINTER(c_void_p)],
    ),
    "maypole_all_gather": (
        c_int,
        [c_void_p, c_void_p, c_uint64, POINTER(c_uint64), POINTER(OpOptions), POINTER(c_void_p)],
    ),
    "maypole_broadcast": (c_int, [c_void_p, c_void_p, c_uint64, c_int64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_reduce": (c_int, [c_void_p, c_void_p, c_uint64, c_int64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_all_to_all": (c_int, [c_void_p, c_void_p, c_void_p, c_uint64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_send": (c_int, [c_void_p, c_void_p, c_uint64, c_int64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_recv": (c_int, [c_void_p, c_void_p, c_uint64, c_int64, POINTER(OpOptions), POINTER(c_void_p)]),
    "maypole_barrier": (c_int, [c_void_p, c_char_p, c_double, POINTER(c_void_p)]),
    "maypole_test": (c_int, [c_void_p]),
    "maypole_wait_for": (c_int, [c_void_p, c_double]),
    "maypole_wait": (c_int, [c_void_p]),
    "maypole_op_result": (c_void_p, [c_void_p]),
    "maypole_op_free": (None, [c_void_p]),
    "maypole_last_error": (c_char_p, []),
    "maypole_last_error_culprits": (c_char_p, []),
    "maypole_version": (c_char_p, []),
    "maypole_get_agent_stats": (c_int, [c_void_p, POINTER(CAgentStats)]),
}


def _candidates() -> list[str]:
    """Where the library may be, best first: beside the package (a wheel), in a source checkout, wherever the loader looks."""
    package = Path(__file__).resolve().parent
    files = [package / NAME]
    if len(package.parents) > 2:
        files.append(package.parents[2] / "build" / "release" / "lib" / NAME)
    return [str(file) for file in files if file.exists()] + [NAME]


def _open() -> ctypes.CDLL:
    explicit = os.environ.get("MAYPOLE_LIBRARY")
    tried = []
    for candidate in [explicit] if explicit else _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            tried.append(str(error))
    raise Error(
        f"cannot load {NAME}: {'; '.join(tried)}. Build it (cmake --preset release && cmake --build --preset release) "
        f"or set MAYPOLE_LIBRARY to the file"
    )


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The loaded library; calls through it release the GIL.

    Raises Error if it cannot be found or is of another version than this package.
    """
    loaded = _open()
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise Error(f"{loaded._name} lacks {name}: library and Python package are of different versions") from None
        function.restype = result
        function.argtypes = arguments
    version = loaded.maypole_version().decode("utf-8", "replace")
    if version != __version__:
        raise Error(f"{loaded._name} is of version {version}, the Python package of {__version__}: install both of one version")
    return loaded


def raise_last_error(status: int) -> NoReturn:
    """Raises what the last failed call of this thread left."""
    loaded = library()
    message = (loaded.maypole_last_error() or b"").decode("utf-8", "replace")
    culprits = (loaded.maypole_last_error_culprits() or b"").decode("utf-8", "replace")
    raise error_of(status, message, culprits)


def check(status: int) -> None:
    if status:
        raise_last_error(status)
