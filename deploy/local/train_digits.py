"""Trains a small CNN on scikit-learn's handwritten digits; every gradient is summed by Maypole's agents.

Run by deploy/local/demo, once per rank, under `maypole local`. DistributedDataParallel wants a process group for its
constructor; that is gloo on loopback, and it carries the initial parameters and no gradient: the hook takes all of those.
At the end rank 0 trains the same model alone on the same global batches, and the two must agree.
"""

import argparse
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
import torch
import torch.distributed
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import maypole
import maypole.torch

# Of the first epoch's loss. The ranks' sums are rounded in another order than one process rounds its own. In the first epoch
# that is all there is; later every ReLU and maximum that falls the other way makes more of it.
FIRST_TOLERANCE = 1e-5
LATER_TOLERANCE = 1e-3
TEST_SHARE = 5  # every fifth image
PROBE_BYTES = 16 << 20
PROBE_ROUNDS = 5
LEARNING_RATE = 0.05


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128, help="images per global batch; a multiple of the world size")
    return parser.parse_args()


@dataclass
class Data:
    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]


def load() -> Data:
    """1,797 images of 8x8 pixels, in the order of the file; the same split on every rank."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16.0
    labels = torch.from_numpy(digits.target).long()
    is_test = torch.arange(len(labels)) % TEST_SHARE == 0
    return Data((images[~is_test], labels[~is_test]), (images[is_test], labels[is_test]))


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(1024, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )


@dataclass
class Run:
    """Seconds and mean losses of a training."""

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    waiting: float = 0.0  # from the last bucket's submission to the end of backward
    steps: int = 0


def train(
    model: torch.nn.Module,
    data: Data,
    arguments: argparse.Namespace,
    share: slice,
    mean_over_ranks: Callable[[float], float],
    last_submission: Callable[[], float],
    report: Callable[[int, float], None],
) -> Run:
    """Trains on `share` of every global batch. The global batches depend on nothing but the seed."""
    images, labels = data.train
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    order = torch.Generator().manual_seed(11)
    run = Run()
    for epoch in range(arguments.epochs):
        start = time.monotonic()
        permutation = torch.randperm(len(labels), generator=order)
        losses = []
        for first in range(0, len(labels) - arguments.batch + 1, arguments.batch):
            mine = permutation[first : first + arguments.batch][share]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            run.waiting += time.monotonic() - last_submission()
            optimizer.step()
            losses.append(loss.item())
        run.steps += len(losses)
        run.seconds += time.monotonic() - start
        run.losses.append(mean_over_ranks(sum(losses) / len(losses)))
        report(epoch, run.losses[-1])
    return run


def accuracy(model: torch.nn.Module, data: Data) -> float:
    images, labels = data.test
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def same_on_all_ranks(session: maypole.Session, model: torch.nn.Module) -> bool:
    """By the smallest and the largest hash of the parameters."""
    hashed = 0
    for parameter in model.parameters():
        hashed = zlib.crc32(parameter.detach().numpy().tobytes(), hashed)
    smallest = session.all_reduce(numpy.array([hashed], numpy.int64), "min", name="hash/min")
    largest = session.all_reduce(numpy.array([hashed], numpy.int64), "max", name="hash/max")
    return bool(smallest[0] == largest[0])


def probe(session: maypole.Session) -> float:
    """Seconds of one all-reduce of PROBE_BYTES in session memory: the best of several, as the slowest rank saw it."""
    buffer = session.empty(PROBE_BYTES // 4, "float32")
    best = float("inf")
    for _ in range(PROBE_ROUNDS):
        session.barrier("probe/start")
        start = time.monotonic()
        session.all_reduce(buffer, name="probe")
        elapsed = numpy.array([time.monotonic() - start])
        best = min(best, float(session.all_reduce(elapsed, "max", name="probe/time")[0]))
    return best


AGENT_COLUMNS = ("wire_sent_bytes", "local_sum_ns", "wait_ns", "transfer_ns", "cpu_ns")


def of_all_agents(session: maypole.Session, before: maypole.AgentStats, after: maypole.AgentStats) -> numpy.ndarray:
    """One row of AGENT_COLUMNS per agent: what its counters grew by."""
    table = numpy.zeros((session.world_size, len(AGENT_COLUMNS)), numpy.int64)
    if session.local_rank == 0:
        table[session.rank] = [getattr(after, column) - getattr(before, column) for column in AGENT_COLUMNS]
    session.all_reduce(table, name="agents")
    return table[table.any(axis=1)]


def print_losses(together: Run, alone: Run) -> bool:
    """True if they agree."""
    print(f"\n{'epoch':>5}  {'Maypole':>10}  {'one process':>11}  {'difference':>10}  {'allowed':>8}")
    agree = True
    for epoch, (ours, reference) in enumerate(zip(together.losses, alone.losses)):
        allowed = alone.losses[0] * (LATER_TOLERANCE if epoch else FIRST_TOLERANCE)
        difference = abs(ours - reference)
        agree = agree and difference <= allowed
        print(f"{epoch + 1:>5}  {ours:>10.6f}  {reference:>11.6f}  {difference:>10.1e}  {allowed:>8.0e}")
    return agree


def print_wire(session: maypole.Session, reduced_bytes: int, agents: numpy.ndarray) -> None:
    nodes = session.nodes
    formula = 2 * reduced_bytes * (nodes - 1) / nodes
    print(f"\nGradients reduced: {reduced_bytes / 1e6:.1f} MB per rank, N; {nodes} agents, P.")
    print(f"{'agent':>5}  {'sent, MB':>9}  {'2N(P-1)/P, MB':>13}  {'ratio':>6}  {'CPU, s':>6}  {'summing, s':>10}")
    # An algorithm may let one agent send more than another; their mean is the formula's.
    for index, row in [*enumerate(agents), ("mean", agents.mean(axis=0))]:
        sent, summing, _, _, cpu = row
        ratio = f"{sent / formula:.4f}" if formula else "-"
        print(f"{index:>5}  {sent / 1e6:>9.2f}  {formula / 1e6:>13.2f}  {ratio:>6}  {cpu / 1e9:>6.2f}  {summing / 1e9:>10.2f}")


def print_times(together: Run, alone: Run, agents: numpy.ndarray, probe_seconds: float) -> None:
    per_step = 1e3 / together.steps
    _, summing, waits, transfer, _ = agents.mean(axis=0) / 1e9
    print(f"\nWhere the time of a step went ({together.steps} steps, {together.seconds:.1f} s; alone {alone.seconds:.1f} s):")
    print(f"  rank 0   computing, with overlap  {(together.seconds - together.waiting) * per_step:8.2f} ms")
    print(f"           waiting for gradients    {together.waiting * per_step:8.2f} ms")
    print(f"  agents   sum of the node's ranks  {summing * per_step:8.2f} ms   (mean of the agents; parts overlap)")
    print(f"           wire and sums, per step  {transfer * per_step:8.2f} ms")
    print(f"           ops waiting for ranks    {waits * per_step:8.2f} ms")
    bandwidth = 2 * PROBE_BYTES / probe_seconds
    measured = f"{PROBE_BYTES >> 20} MiB in {probe_seconds * 1e3:.1f} ms, all ranks"
    print(f"Effective bandwidth 2N/T: {bandwidth / 1e6:.0f} MB/s ({measured}).")


def main() -> int:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with maypole.connect() as session:
        rank, world = session.rank, session.world_size
        if arguments.batch % world:
            sys.exit(f"--batch {arguments.batch} is no multiple of the {world} ranks")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
        try:
            return run(session, arguments)
        finally:
            torch.distributed.destroy_process_group()


def run(session: maypole.Session, arguments: argparse.Namespace) -> int:
    first = session.rank == 0
    data = load()
    model = DistributedDataParallel(make_model())
    state = maypole.torch.HookState(session)
    model.register_comm_hook(state, maypole.torch.allreduce_hook)
    if first:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        print(f"{session.nodes} nodes, {session.world_size} ranks; {len(data.train[1])} images to learn, "
              f"{len(data.test[1])} to test; {parameters} parameters", flush=True)

    def report(epoch: int, loss: float) -> None:
        if first:
            print(f"epoch {epoch + 1} of {arguments.epochs}: loss {loss:.6f}", flush=True)

    def mean_over_ranks(loss: float) -> float:
        return float(session.all_reduce(numpy.array([loss]), "mean", name="loss")[0])

    share = slice(session.rank, None, session.world_size)
    session.barrier("start")
    before = session.agent_stats()
    together = train(model, data, arguments, share, mean_over_ranks, lambda: state.stats.last_submission, report)
    session.barrier("trained")
    agents = of_all_agents(session, before, session.agent_stats())
    equal = same_on_all_ranks(session, model.module)
    probe_seconds = probe(session)

    agree = 1
    if first:
        alone_model = make_model()
        print("the same training in one process ...", flush=True)
        alone = train(alone_model, data, arguments, slice(None), lambda loss: loss, time.monotonic, lambda *_: None)
        agree = int(print_losses(together, alone))
        print(f"\nTest accuracy: {accuracy(model.module, data):.4f} (one process: {accuracy(alone_model, data):.4f})")
        print(f"Parameters after training: {'the same bits on all ranks' if equal else 'DIFFERENT between ranks'}")
        print_wire(session, state.stats.bytes, agents)
        print_times(together, alone, agents, probe_seconds)
        print("\nThe losses agree." if agree else "\nThe losses DIFFER by more than is allowed.", flush=True)
    verdict = session.all_reduce(numpy.array([agree], numpy.int32), "min", name="verdict")  # the other ranks wait here
    return 0 if equal and verdict[0] else 1


if __name__ == "__main__":
    sys.exit(main())
