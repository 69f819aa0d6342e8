"""What may be reduced: numpy arrays, torch CPU tensors, the buffer protocol, DLPack. All become (address, count, dtype).

Nothing is converted or copied here: an array is either taken as it lies in memory or refused with what to do.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from . import _dlpack
from ._errors import InvalidArgumentError

# maypole_dtype of maypole.h
DTYPE_CODES: dict[str, int] = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "bfloat16": 3,
    "int8": 4,
    "uint8": 5,
    "int32": 6,
    "int64": 7,
}

_BOOLS = ("bool", "bool8")  # of numpy, torch and the buffer protocol; of DLPack
_TORCH_REDUCTIONS = ("SUM", "AVG", "MIN", "MAX", "PRODUCT")


@dataclass(frozen=True)
class Memory:
    """`count` elements at `address`, contiguous in C order. `owner` keeps the memory alive; not thread-bound."""

    address: int
    count: int
    dtype: int  # maypole_dtype
    owner: Any


def memory_of(array: Any, writable: bool, reduced: bool = True) -> Memory:
    """Where the elements of `array` lie.

    Raises InvalidArgumentError for what cannot be summed, or else only sent, where it lies: not contiguous, another dtype, not
    in host memory, or read-only although `writable` is asked for.
    """
    code = dtype_code if reduced else _sent_dtype_code
    if is_torch_tensor(array):
        return _of_torch(array, code)
    if isinstance(array, numpy.ndarray):
        return _of_numpy(array, array, writable, code)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, writable, code)
    try:
        view = memoryview(array)
    except TypeError:
        raise InvalidArgumentError(
            f"cannot reduce a {type(array).__name__}: pass a numpy array, a torch tensor, or an object with the buffer "
            f"protocol or DLPack (a list or scalar: numpy.array(x, dtype=numpy.float32))"
        ) from None
    return _of_numpy(numpy.asarray(view), array, writable, code)


def is_torch_tensor(array: Any) -> bool:
    """Without importing torch: if nobody has, it is no tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_torch_dtype(dtype: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(dtype, torch.dtype)


def dtype_code(name: str) -> int:
    try:
        return DTYPE_CODES[name]
    except KeyError:
        advice = "; as uint8, op='max' tells whether any is true, op='min' whether all are" if name in _BOOLS else ""
        raise InvalidArgumentError(f"dtype {name} cannot be reduced; use one of {', '.join(DTYPE_CODES)}{advice}") from None


def _sent_dtype_code(name: str) -> int:
    """Of what is moved and not reduced: a bool is a byte."""
    return DTYPE_CODES["uint8"] if name in _BOOLS else dtype_code(name)


def reduction_name(op: Any) -> Any:
    """`op` itself, or the name that one of torch.distributed.ReduceOp has."""
    torch = sys.modules.get("torch.distributed")
    if torch is None or not hasattr(torch, "ReduceOp"):  # a torch without its distributed part
        return op
    if isinstance(op, (torch.ReduceOp, torch.ReduceOp.RedOpType)):
        return next((kind.lower() for kind in _TORCH_REDUCTIONS if op == getattr(torch.ReduceOp, kind)), op)
    return op


def dtype_name(code: int) -> str:
    return next(name for name, number in DTYPE_CODES.items() if number == code)


def flat_view(array: Any, begin: int, end: int) -> Any:
    """Elements [begin, end) of a contiguous numpy array or torch tensor; any other `array` itself."""
    if isinstance(array, numpy.ndarray) or is_torch_tensor(array):
        return array.reshape(-1)[begin:end]
    return array


def empty_like(array: Any) -> Any:
    """A new numpy array or torch tensor of the shape and dtype of `array`, which is one of those."""
    if is_torch_tensor(array):
        return sys.modules["torch"].empty_like(array)
    if isinstance(array, numpy.ndarray):
        return numpy.empty_like(array)
    raise InvalidArgumentError(f"give an output: one like a {type(array).__name__} cannot be made")


def numpy_dtype(dtype: Any) -> numpy.dtype:
    """The numpy dtype for `dtype`; "bfloat16" needs the ml_dtypes package."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise InvalidArgumentError(
                "numpy has no bfloat16: pass torch.bfloat16 (for a torch tensor) or install the package ml_dtypes"
            ) from None
        return numpy.dtype(ml_dtypes.bfloat16)
    try:
        result = numpy.dtype(dtype)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{dtype!r} is not a dtype; use one of {', '.join(DTYPE_CODES)}") from None
    dtype_code(result.name)
    return result


def torch_dtype_name(dtype: Any) -> str:
    return str(dtype).replace("torch.", "", 1)


def _of_torch(tensor: Any, code: Callable[[str], int]) -> Memory:
    if tensor.device.type != "cpu":
        raise InvalidArgumentError(f"the tensor is on {tensor.device}, but only host memory can be reduced: pass tensor.cpu()")
    if str(tensor.layout) != "torch.strided" or not tensor.is_contiguous():
        raise InvalidArgumentError(
            f"the tensor of shape {tuple(tensor.shape)} is not contiguous: pass tensor.contiguous() and copy the result back"
        )
    return Memory(tensor.data_ptr(), tensor.numel(), code(torch_dtype_name(tensor.dtype)), tensor)


def _of_numpy(array: numpy.ndarray, owner: Any, writable: bool, code: Callable[[str], int]) -> Memory:
    dtype = code(array.dtype.name)
    if not array.dtype.isnative:
        raise InvalidArgumentError(f"dtype {array.dtype.str} has foreign byte order: pass array.astype('{array.dtype.name}')")
    if not array.flags.c_contiguous:
        raise InvalidArgumentError(
            f"the array of shape {array.shape} is not contiguous in C order: pass numpy.ascontiguousarray(array) and copy the "
            f"result back"
        )
    _check_writable(bool(array.flags.writeable), writable)
    return Memory(array.ctypes.data, array.size, dtype, owner)


def _of_dlpack(array: Any, writable: bool, code: Callable[[str], int]) -> Memory:
    tensor = _dlpack.export(array)
    if not tensor.contiguous:
        raise InvalidArgumentError(f"the DLPack array of shape {tensor.shape} is not contiguous in C order: copy it first")
    _check_writable(not tensor.read_only, writable)
    return Memory(tensor.address, tensor.count, code(tensor.dtype), (array, tensor))


def _check_writable(is_writable: bool, wanted: bool) -> None:
    if wanted and not is_writable:
        raise InvalidArgumentError(
            "the array is read-only, but the result is written in place: pass array.copy(), or shared_result=True"
        )


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as numpy takes it: an int or a sequence of ints, none negative."""
    try:
        sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        result = tuple(size.__index__() for size in sizes)
    except (TypeError, AttributeError):
        raise InvalidArgumentError(f"shape {shape!r} is neither an int nor a sequence of ints") from None
    if any(size < 0 for size in result):
        raise InvalidArgumentError(f"shape {shape!r} has a negative size")
    return result
