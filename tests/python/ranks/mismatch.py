"""The last rank submits another count: everyone must get the same text, and the next op works."""

import numpy

import maypole

with maypole.connect() as session:
    odd = session.rank == session.world_size - 1
    for kind, (array, op) in {
        "count": (numpy.ones(8 if odd else 9, numpy.float32), "sum"),
        "dtype": (numpy.ones(8, numpy.float64 if odd else numpy.float32), "sum"),
        "op": (session.empty(8), "min" if odd else "max"),
    }.items():
        before = array.tolist()
        try:
            session.all_reduce(array, op, name=f"layer {kind}", timeout=20)
            print(f"NO ERROR {kind}")
        except maypole.MismatchError as error:
            print(f"MISMATCH {kind}: {error}")
        assert array.tolist() == before, "the input was touched"
    assert session.all_reduce(numpy.ones(3), name="next")[0] == session.world_size
    print("all right")
