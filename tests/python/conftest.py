"""Fixtures. Unit tests load a fake libmaypole.so into this process; integration tests run real ranks, agents and a coordinator
as processes of their own, by `maypole local`."""

import ctypes
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "python"
RANKS = Path(__file__).parent / "ranks"
BUILD = Path(os.environ.get("MAYPOLE_BUILD", ROOT / "build" / "release"))
sys.path.insert(0, str(PACKAGE))


def build_fake_library(file, version):
    source = Path(__file__).parent / "fake_maypole.c"
    command = ["cc", f'-DFAKE_VERSION="{version}"', "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/client/include", source, "-o", file]
    subprocess.run(command, check=True)


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory):
    """The fake, compiled and chosen for this process."""
    from maypole import __version__

    file = tmp_path_factory.mktemp("fake") / "libmaypole.so"
    build_fake_library(file, __version__)
    os.environ["MAYPOLE_LIBRARY"] = str(file)
    return ctypes.CDLL(str(file))


@pytest.fixture
def session(fake_library):
    import maypole

    with maypole.connect() as session:
        yield session


class Run:
    """A `maypole local` with its agents and ranks. All carry a token in their environment, by which leftovers are found."""

    def __init__(self, script, *arguments, nodes=1, ranks_per_node=1):
        self.token = f"MAYPOLE_TEST_RUN={uuid.uuid4()}"
        name, value = self.token.split("=")
        environment = {"MAYPOLE_LIBRARY": str(BUILD / "lib" / "libmaypole.so"), "PYTHONPATH": str(PACKAGE), name: value}
        placement = ["--nodes", str(nodes), "--ranks-per-node", str(ranks_per_node)]
        self.process = subprocess.Popen(
            [BUILD / "bin" / "maypole", "local", *placement, "--", sys.executable, script, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self):
        """Ids of the processes that belong to this run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.token.encode() in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
            except OSError:  # it has ended, or is not ours to read
                continue
        return found

    def finish(self, seconds):
        """Its output and exit code. Fails the test if it takes longer or leaves processes behind."""
        try:
            output, _ = self.process.communicate(timeout=seconds)
            complaint = "left processes behind"
        except subprocess.TimeoutExpired as error:
            output, complaint = (error.stdout or b"").decode(), f"still running after {seconds} s"
        left = self.processes()
        for process in left:
            os.kill(process, signal.SIGKILL)
        if left:
            self.process.communicate()
            pytest.fail(f"{complaint}: {left}\n{output}")
        return output, self.process.returncode


@pytest.fixture(scope="session")
def cluster():
    """Starts a Run of a script in ranks/."""
    if not (BUILD / "bin" / "maypole").exists():
        pytest.skip(f"no {BUILD}/bin/maypole: build the release preset or set MAYPOLE_BUILD")
    return lambda script, *arguments, **placement: Run(RANKS / script, *arguments, **placement)


@pytest.fixture(scope="session")
def run_ranks(cluster):
    """The output of a script of ranks/ of which every rank must end well and say so."""

    def run(script, *arguments, nodes, ranks_per_node, seconds=60):
        output, code = cluster(script, *arguments, nodes=nodes, ranks_per_node=ranks_per_node).finish(seconds)
        assert code == 0, output
        assert output.count("all right") == nodes * ranks_per_node, output
        return output

    return run
