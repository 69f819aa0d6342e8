"""A deterministic session: one digest over buckets of all sizes, algorithms, orders of submission; other algorithms are refused."""

import hashlib

import numpy

import maypole

COUNT = 300_007

with maypole.connect(deterministic=True) as session:
    random = numpy.random.default_rng(session.rank)
    gradients = {
        dtype: (random.standard_normal(COUNT) * 10.0 ** random.integers(-4, 4, COUNT)).astype(dtype)
        for dtype in ("float32", "float64", "float16")
    }
    for dtype, gradient in gradients.items():
        digests = set()
        for algorithm in ("auto", "direct", "naive"):
            for bucket in (COUNT, 100_000, 4_099):
                result = gradient.copy()
                parts = [result[begin : begin + bucket] for begin in range(0, COUNT, bucket)]
                order = range(len(parts))
                works = [
                    session.all_reduce(parts[i], "mean", name=f"{bucket} {i}", algorithm=algorithm, async_op=True)
                    for i in (order if session.rank % 2 else reversed(order))
                ]
                for work in works:
                    work.wait()
                digests.add(hashlib.sha256(result.tobytes()).hexdigest())
        assert len(digests) == 1, f"{dtype}: {len(digests)} different results"
        print(f"DIGEST {dtype} {digests.pop()}")
    scattered = session.reduce_scatter(gradients["float32"][: COUNT // session.world_size * session.world_size].copy())
    print(f"DIGEST own block of {session.rank} {hashlib.sha256(numpy.ascontiguousarray(scattered).tobytes()).hexdigest()}")
    try:
        session.all_reduce(gradients["float32"], algorithm="ring")
        print("NO ERROR")
    except maypole.InvalidArgumentError as error:
        assert '"ring"' in str(error) and "deterministic" in str(error), error
    print("all right")
