"""Reads the address, shape and dtype out of a DLPack capsule, without copying.

numpy.from_dlpack is no help here: it gives read-only arrays and knows no bfloat16.
Layout: https://dmlc.github.io/dlpack/latest/c_api.html (DLManagedTensor, and DLManagedTensorVersioned of DLPack 1.0).
"""

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from dataclasses import dataclass
from math import prod
from typing import Any

from ._errors import InvalidArgumentError

_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost (pinned)
_FLAG_READ_ONLY = 1
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = c_void_p
_pointer_of.argtypes = [py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [py_object, ctypes.c_char_p]


@dataclass(frozen=True)
class Exported:
    """`capsule` keeps the memory alive; its own destructor frees what the producer made."""

    address: int
    shape: tuple[int, ...]
    count: int
    dtype: str
    contiguous: bool
    read_only: bool
    capsule: Any


def export(array: Any) -> Exported:
    """Raises InvalidArgumentError if the array is not in host memory."""
    device = int(array.__dlpack_device__()[0])
    if device not in _HOST_DEVICES:
        raise InvalidArgumentError(
            f"the array is on DLPack device type {device}, but only host memory can be reduced: copy it to the CPU"
        )
    capsule = _capsule_of(array)
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _ManagedVersioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise InvalidArgumentError(f"DLPack {managed.major}.{managed.minor} is not known here: pass a numpy array")
        return _read(managed.tensor, bool(managed.flags & _FLAG_READ_ONLY), capsule)
    return _read(_Managed.from_address(_pointer_of(capsule, b"dltensor")).tensor, False, capsule)


def _capsule_of(array: Any) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0 takes no max_version
        return array.__dlpack__()


def _read(tensor: _Tensor, read_only: bool, capsule: Any) -> Exported:
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
    kind = _KINDS.get(tensor.code, f"kind{tensor.code}_")
    lanes = f"x{tensor.lanes}" if tensor.lanes != 1 else ""
    return Exported(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        count=prod(shape),
        dtype=f"{kind}{tensor.bits}{lanes}",
        contiguous=_is_contiguous(shape, strides),
        read_only=read_only,
        capsule=capsule,
    )


def _is_contiguous(shape: tuple[int, ...], strides: Any) -> bool:
    if strides is None or 0 in shape:  # DLPack: no strides mean C order
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
