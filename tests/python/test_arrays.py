import array
import ctypes

import numpy
import pytest
import torch

import maypole
from maypole._arrays import DTYPE_CODES, memory_of, numpy_dtype, shape_of


def refused(value, writable=True):
    with pytest.raises(maypole.InvalidArgumentError) as caught:
        memory_of(value, writable)
    return str(caught.value)


@pytest.mark.parametrize("name", [name for name in DTYPE_CODES if name != "bfloat16"])
def test_a_numpy_array_is_taken_where_it_lies(name):
    value = numpy.zeros((3, 4), name)
    memory = memory_of(value, True)
    assert (memory.address, memory.count, memory.dtype) == (value.ctypes.data, 12, DTYPE_CODES[name])
    assert memory.owner is value


@pytest.mark.parametrize("name", DTYPE_CODES)
def test_a_torch_tensor_is_taken_where_it_lies(name):
    value = torch.zeros((3, 4), dtype=getattr(torch, name))
    memory = memory_of(value, True)
    assert (memory.address, memory.count, memory.dtype) == (value.data_ptr(), 12, DTYPE_CODES[name])


@pytest.mark.parametrize("value", [numpy.array(1.0), torch.tensor(1.0)])
def test_a_0d_array_has_one_element(value):
    assert memory_of(value, True).count == 1


@pytest.mark.parametrize("value", [numpy.zeros((3, 0)), torch.zeros(0), array.array("f")])
def test_an_array_may_be_empty(value):
    assert memory_of(value, True).count == 0


@pytest.mark.parametrize(
    "value, name",
    [
        (array.array("f", [1, 2, 3]), "float32"),
        (bytearray(3), "uint8"),
        (memoryview(array.array("q", [1, 2, 3])), "int64"),
        ((ctypes.c_double * 3)(), "float64"),
    ],
)
def test_the_buffer_protocol_is_taken_where_it_lies(value, name):
    memory = memory_of(value, True)
    assert (memory.count, memory.dtype) == (3, DTYPE_CODES[name])
    element = numpy.dtype(name).itemsize
    ctypes.memset(memory.address + element, 1, 1)
    assert memoryview(value).cast("B")[element] == 1


class Exporter:
    """Any library's array: DLPack and nothing else."""

    def __init__(self, tensor, device=1):
        self.tensor = tensor
        self.device = device

    def __dlpack__(self):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return (self.device, 0)


@pytest.mark.parametrize("name", [name for name in DTYPE_CODES])
def test_dlpack_is_taken_where_it_lies(name):
    tensor = torch.zeros((2, 3), dtype=getattr(torch, name))[1]
    memory = memory_of(Exporter(tensor), True)
    assert (memory.address, memory.count, memory.dtype) == (tensor.data_ptr(), 3, DTYPE_CODES[name])


def test_dlpack_elsewhere_than_in_host_memory_is_refused():
    assert "device type 2" in refused(Exporter(torch.zeros(3), device=2))


def test_dlpack_that_is_not_contiguous_is_refused():
    assert "not contiguous" in refused(Exporter(torch.zeros(3, 4).t()))


def test_dlpack_of_another_dtype_is_refused():
    assert "complex64" in refused(Exporter(torch.zeros(3, dtype=torch.complex64)))


def test_a_capsule_that_was_not_used_up_is_freed_by_its_owner():
    values = numpy.zeros(1000)
    for _ in range(100):
        memory_of(Exporter(torch.from_numpy(values)), True)
    import gc
    import sys

    gc.collect()
    assert sys.getrefcount(values) < 10


@pytest.mark.parametrize(
    "value, hint",
    [
        (numpy.zeros((4, 4)).T, "ascontiguousarray"),
        (numpy.zeros(8)[::2], "ascontiguousarray"),
        (torch.zeros(4, 4).t(), ".contiguous()"),
        (torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last), ".contiguous()"),
        (torch.zeros(3).to_sparse(), ".contiguous()"),
        (torch.zeros(3, device="meta"), ".cpu()"),
        (numpy.zeros(3, bool), "bool"),
        (numpy.zeros(3, numpy.uint16), "uint16"),
        (numpy.zeros(3, complex), "complex128"),
        (numpy.zeros(3, ">f4"), "byte order"),
        (numpy.zeros(3, [("a", "f4")]), "cannot be reduced"),
        (numpy.array(["a"]), "cannot be reduced"),
        (torch.zeros(3, dtype=torch.bool), "bool"),
        ([1.0, 2.0], "list"),
        (3.0, "float"),
        (None, "NoneType"),
        (b"abc", "read-only"),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_what_to_do(value, hint):
    assert hint in refused(value)


@pytest.mark.parametrize(
    "value", [numpy.zeros(3, bool), torch.zeros(3, dtype=torch.bool), memoryview(numpy.zeros(3, bool))]
)
def test_a_bool_is_sent_as_a_byte_but_not_reduced(value):
    memory = memory_of(value, True, reduced=False)
    assert (memory.count, memory.dtype) == (3, DTYPE_CODES["uint8"])
    assert "op='max'" in refused(value)


def test_what_is_only_sent_needs_a_dtype_too():
    with pytest.raises(maypole.InvalidArgumentError, match="uint16"):
        memory_of(numpy.zeros(3, numpy.uint16), True, reduced=False)


def test_a_read_only_array_is_refused_unless_the_result_goes_elsewhere():
    value = numpy.zeros(3)
    value.flags.writeable = False
    assert "shared_result" in refused(value)
    assert memory_of(value, writable=False).count == 3


@pytest.mark.parametrize(
    "shape, expected",
    [(3, (3,)), ((), ()), ([2, 0], (2, 0)), (numpy.int64(4), (4,)), (torch.Size([1, 2]), (1, 2))],
)
def test_a_shape_is_an_int_or_a_sequence_of_ints(shape, expected):
    assert shape_of(shape) == expected


@pytest.mark.parametrize("shape", [-1, (2, -3), 1.5, "ab", None])
def test_a_bad_shape_is_refused(shape):
    with pytest.raises(maypole.InvalidArgumentError):
        shape_of(shape)


@pytest.mark.parametrize("dtype", ["float31", "complex64", bool, object])
def test_a_dtype_that_cannot_be_reduced_is_refused(dtype):
    with pytest.raises(maypole.InvalidArgumentError):
        numpy_dtype(dtype)
