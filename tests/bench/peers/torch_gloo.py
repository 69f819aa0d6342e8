"""torch.distributed with gloo, by the rules of harness.h; ranks meet at MASTER_ADDR."""

import json
import mmap
import os
import resource
import statistics
import struct
import time

import torch
import torch.distributed

MOST_ITERATIONS = 20000
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BOARD_BYTES = (MOST_ITERATIONS + 2) * 8  # of one rank: CPU seconds, then the ends


def process_cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def machine_cpu():
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def measure(board, size):
    data = torch.full((size // 4,), float(RANK + 1))
    torch.distributed.all_reduce(data)
    assert bool((data == RANKS * (RANKS + 1) // 2).all()), "wrong result"
    data.zero_()
    start = time.monotonic()
    for _ in range(2):
        torch.distributed.all_reduce(data)
    fit = float(os.environ.get("PEER_SECONDS", "1")) * 2 / (time.monotonic() - start)
    agreed = torch.tensor([float(min(max(fit, 10), MOST_ITERATIONS)) if RANK == 0 else 0.0])
    torch.distributed.all_reduce(agreed)
    iterations = int(agreed.item())
    for _ in range(min(3 + iterations // 10, 200)):
        torch.distributed.all_reduce(data)
    torch.distributed.barrier()
    machine = machine_cpu()
    torch.distributed.barrier()
    cpu = process_cpu()
    ends = []
    for _ in range(iterations + 1):
        torch.distributed.all_reduce(data)
        ends.append(time.monotonic())
    cpu = process_cpu() - cpu
    machine = machine_cpu() - machine
    struct.pack_into(f"{len(ends) + 1}d", board, RANK * BOARD_BYTES, cpu, *ends)
    torch.distributed.barrier()
    if RANK == 0:
        rows = [struct.unpack_from(f"{len(ends) + 1}d", board, rank * BOARD_BYTES) for rank in range(RANKS)]
        last = [max(row[1 + i] for row in rows) for i in range(len(ends))]
        times = [after - before for before, after in zip(last, last[1:])]
        gigabytes = size * len(ends) / 1e9
        row = {"bytes": size, "ranks": RANKS, "iterations": iterations, "time_us": statistics.median(times) * 1e6}
        row |= {"time_min_us": min(times) * 1e6, "cpu_s_per_gb": sum(row[0] for row in rows) / gigabytes}
        print(json.dumps(row | {"machine_cpu_s_per_gb": machine / gigabytes}), flush=True)
    torch.distributed.barrier()


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    with open(os.environ["PEER_BOARD"], "a+b") as file:
        file.truncate(RANKS * BOARD_BYTES)
        with mmap.mmap(file.fileno(), RANKS * BOARD_BYTES) as board:
            for size in os.environ["PEER_SIZES"].split(","):
                measure(board, int(size))


main()
