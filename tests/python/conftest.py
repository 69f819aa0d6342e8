"""Fixtures. Unit tests (marked unit) load a fake libmaypole.so into this process; integration tests run real ranks, agents and a
coordinator as processes of their own, by `maypole local`."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "python"
RANKS = Path(__file__).parent / "ranks"
BUILD = Path(os.environ.get("MAYPOLE_BUILD", ROOT / "build" / "release"))
sys.path.insert(0, str(PACKAGE))


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory):
    """The fake, compiled and chosen for this process."""
    file = tmp_path_factory.mktemp("fake") / "libmaypole.so"
    source = Path(__file__).parent / "fake_maypole.c"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/client/include", source, "-o", file]
    subprocess.run(command, check=True)
    os.environ["MAYPOLE_LIBRARY"] = str(file)
    return ctypes.CDLL(str(file))


@pytest.fixture
def session(fake_library):
    import maypole

    with maypole.connect() as session:
        yield session


class Cluster:
    """Runs a script of ranks/ once per rank under `maypole local`."""

    def environment(self):
        # "" would win over nothing: the ranks must find the library of this build.
        extra = {"MAYPOLE_LIBRARY": str(BUILD / "lib" / "libmaypole.so"), "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **extra}

    def start(self, script, *arguments, nodes=1, ranks_per_node=1, world=None):
        placement = ["--nodes", str(nodes), "--ranks-per-node", str(ranks_per_node)]
        command = [BUILD / "bin" / "maypole", "local", *placement, "--", sys.executable, RANKS / script, *arguments]
        return subprocess.Popen(
            [str(part) for part in command],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # one group, so that a test that failed leaves nothing behind
        )

    def finish(self, process, seconds):
        """Its output. Fails the test if it takes longer; kills what is left in its process group."""
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"still running after {seconds} s:\n{output}")
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return output
        pytest.fail(f"left processes behind:\n{output}")

    def run(self, script, *arguments, nodes=1, ranks_per_node=1, seconds=60):
        """Output of a run in which every rank must succeed."""
        process = self.start(script, *arguments, nodes=nodes, ranks_per_node=ranks_per_node)
        output = self.finish(process, seconds)
        assert process.returncode == 0, output
        return output


@pytest.fixture(scope="session")
def cluster():
    if not (BUILD / "bin" / "maypole").exists():
        pytest.skip(f"no {BUILD}/bin/maypole: build the release preset or set MAYPOLE_BUILD")
    return Cluster()
