"""Every dtype and reduction at awkward sizes, against a float64 reference; and the same bytes on every rank."""

import itertools
import sys
import zlib

import numpy
import torch

import maypole
from maypole._arrays import DTYPE_CODES

OPS = ("sum", "mean", "min", "max", "product")
# Errors are counted in units of the type's precision at the magnitude of the values, one for each agent at most.
PRECISION = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def inputs(dtype, count, rank):
    """The same on every rank that asks: small numbers, exact in every type, that differ by rank and place."""
    values = (numpy.arange(count) * 7 + rank * 5) % 11 - 3
    if dtype == "uint8":
        values = values + 3
    if dtype in PRECISION:
        return torch.from_numpy(values / 4.0).to(getattr(torch, dtype))
    return torch.from_numpy(values).to(getattr(torch, dtype))


def reference(dtype, op, count, world):
    """In float64 for floats; in wrapping 64-bit integers for integers."""
    wide = torch.float64 if dtype in PRECISION else torch.int64
    parts = torch.stack([inputs(dtype, count, rank).to(wide) for rank in range(world)])
    if op in ("min", "max"):
        return getattr(parts, "a" + op)(0)
    if op == "product":
        return parts.prod(0)
    total = parts.sum(0)
    if op == "sum":
        return total
    if dtype in PRECISION:
        return total / world
    return torch.div(total, world, rounding_mode="trunc")


def wrong_elements(dtype, op, result, expected, world):
    if dtype not in PRECISION:
        return int((result != expected.to(result.dtype)).sum())
    if op in ("min", "max"):
        return int((result.to(torch.float64) != expected).sum())
    magnitude = 3.0 * world if op in ("sum", "mean") else expected.abs().clamp(min=1.0)
    return int(((result.to(torch.float64) - expected).abs() > PRECISION[dtype] * world * magnitude).sum())


def main():
    failures = []
    hashed = 0
    with maypole.connect() as session:
        world, nodes = session.world_size, session.nodes
        counts = sorted({0, 1, nodes - 1, nodes, nodes + 1, world + 1, 1023, 65537})
        for dtype, op, count in itertools.product(DTYPE_CODES, OPS, counts):
            name = f"{dtype} {op} {count}"
            make = session.empty if count % 2 else torch.empty
            tensor = make(count, dtype=getattr(torch, dtype))
            tensor.copy_(inputs(dtype, count, session.rank))
            session.all_reduce(tensor, op, name=name, timeout=20)
            wrong = wrong_elements(dtype, op, tensor, reference(dtype, op, count, world), world)
            if wrong:
                failures.append(f"{name}: {wrong} wrong")
            hashed = zlib.crc32(tensor.view(torch.uint8).numpy().tobytes() if count else b"", hashed)
        hashes = numpy.zeros(world, numpy.int64)
        hashes[session.rank] = hashed
        session.all_reduce(hashes, "sum", name="hashes")
        if len(set(hashes.tolist())) != 1:
            failures.append(f"different bytes: {hashes}")
        print("\n".join(failures) or f"all right in a world of {world} on {nodes} nodes")
    return 1 if failures else 0


sys.exit(main())
