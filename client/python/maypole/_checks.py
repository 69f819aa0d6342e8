"""Arguments as a caller may give them, made into what C takes. Each refusal is an InvalidArgumentError that names the argument,
its value and what is allowed; C itself would cut, wrap or misread them without a word."""

import math
import numbers
import os
from collections.abc import Iterable
from typing import Any, Optional

import numpy

from ._errors import InvalidArgumentError

INT64_MAX = 2**63 - 1
_NAME_BYTES_MAX = 255


def integer(what: str, value: Any, least: int, most: int, form: str) -> int:
    """Any integer type from `least` to `most`; `form` says that to a person."""
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"{what}={value!r} is no {form}: it must be an int") from None
    if not least <= number <= most:
        raise InvalidArgumentError(f"{what}={value!r} is no {form}: it must be from {least} to {most}")
    return number


def rank(what: str, value: Any) -> int:
    """Of the job's ranks the library knows which there are."""
    return integer(what, value, -(2**63), INT64_MAX, "rank")


def flag(what: str, value: Any) -> int:
    if isinstance(value, (bool, int, numpy.bool_, numpy.integer)) and value in (0, 1):
        return int(value)
    raise InvalidArgumentError(f"{what}={value!r} must be True or False")


def seconds(timeout: Any) -> float:
    """0 for None, which is the library's default."""
    if timeout is None:
        return 0.0
    if not isinstance(timeout, numbers.Real) or not 0 < timeout < math.inf:
        raise InvalidArgumentError(f"timeout={timeout!r} must be a positive number of seconds, or None for the default")
    return float(timeout)


def name(value: Any) -> Optional[bytes]:
    encoded = text("name", value)
    if encoded is not None and not 0 < len(encoded) <= _NAME_BYTES_MAX:
        raise InvalidArgumentError(f"name={value!r} must have 1 to {_NAME_BYTES_MAX} bytes of UTF-8")
    return encoded


def text(what: str, value: Any) -> Optional[bytes]:
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{what}={value!r} must be a str")
    return None if value is None else _without_zero_byte(what, value, str.encode)


def path(what: str, value: Any) -> Optional[bytes]:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise InvalidArgumentError(f"{what}={value!r} must be a str or a path")
    return None if value is None else _without_zero_byte(what, value, os.fsencode)


def counts(value: Any, ranks: int) -> Optional[list[int]]:
    """The elements of each rank's block."""
    if value is None:
        return None
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"counts={value!r} must be a sequence of ints, one for each rank")
    numbers_of_elements = [integer("each of counts", count, 0, INT64_MAX, "number of elements") for count in value]
    if len(numbers_of_elements) != ranks:
        raise InvalidArgumentError(f"{len(numbers_of_elements)} counts were given for {ranks} ranks; give one for each")
    return numbers_of_elements


def choice(what: str, value: Any, choices: dict[str, int]) -> int:
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise InvalidArgumentError(f"{what}={value!r} is not one of {', '.join(choices)}") from None


def _without_zero_byte(what: str, value: Any, encode: Any) -> bytes:
    try:
        encoded: bytes = encode(value)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what}={value!r} is no text: {error.reason} at its character {error.start}") from None
    # C would end the text there, and the session would join another job.
    if b"\0" in encoded:
        raise InvalidArgumentError(f"{what}={value!r} must not hold a zero byte")
    return encoded
