"""Real ranks, agents and coordinator on loopback; what a rank does stands in ranks/."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import BUILD, ROOT


@pytest.mark.parametrize("nodes, ranks_per_node", [(1, 1), (1, 2), (3, 1), (5, 1), (4, 2)])
def test_every_dtype_and_op_gives_the_right_numbers_and_the_same_bytes(run_ranks, nodes, ranks_per_node):
    run_ranks("arithmetic.py", nodes=nodes, ranks_per_node=ranks_per_node, seconds=90)


@pytest.mark.parametrize("nodes, ranks_per_node", [(1, 1), (1, 3), (3, 1), (3, 2)])
def test_every_collective_gives_every_rank_what_is_its(run_ranks, nodes, ranks_per_node):
    run_ranks("collectives.py", nodes=nodes, ranks_per_node=ranks_per_node, seconds=90)


def test_a_deterministic_session_gives_the_same_bits_in_every_run(run_ranks):
    digests = []
    for _ in range(2):
        output = run_ranks("deterministic.py", nodes=3, ranks_per_node=2, seconds=90)
        assert "NO ERROR" not in output
        digests.append(set(re.findall(r"DIGEST (.*)", output)))
    assert digests[0] == digests[1]
    assert len(digests[0]) == 3 + 6  # one a dtype, whatever the rank; one a block


def test_ops_meet_by_name_in_whatever_order_they_come(run_ranks):
    run_ranks("order.py", nodes=2, ranks_per_node=2)


def test_a_mismatch_has_the_same_text_on_all_ranks_and_names_both_groups(run_ranks):
    output = run_ranks("mismatch.py", nodes=2, ranks_per_node=2)
    assert "NO ERROR" not in output
    for kind, values in {"count": ("8", "9"), "dtype": ("f32", "f64"), "op": ("min", "max")}.items():
        texts = re.findall(rf"MISMATCH {kind}: (.*)", output)
        assert len(texts) == 4 and len(set(texts)) == 1, output
        assert all(value in texts[0] for value in (*values, f"layer {kind}")), texts[0]
        assert re.search(r"\b0\D+1\D+2\b|0-2|0\.\.2", texts[0]) and "3" in texts[0], texts[0]


def test_a_timeout_names_the_rank_that_did_not_come(run_ranks):
    output = run_ranks("late.py", nodes=2, ranks_per_node=2)
    assert "NO ERROR" not in output
    assert output.count("TIMEOUT for (1,)") == 6, output
    assert "only some" in output


def test_the_loss_of_a_rank_ends_the_calls_of_the_others(cluster):
    output, code = cluster("lost.py", nodes=2, ranks_per_node=2).finish(40)
    assert code == 128 + signal.SIGKILL, output
    assert "NO ERROR" not in output and output.count("survived") == 3, output
    killed = float(re.search(r"killed at ([\d.]+)", output).group(1))
    lost = [float(moment) for moment in re.findall(r"LOST \(1,\) at ([\d.]+)", output)]
    assert len(lost) == 6 and output.count("STILL LOST (1,)") == 3, output
    assert max(lost) - killed < 1, output


def test_a_forked_child_is_refused_and_harms_nothing(run_ranks):
    output = run_ranks("after_fork.py", nodes=1, ranks_per_node=2)
    assert "NO ERROR" not in output and output.count("child refused") == 4


def test_session_memory_is_the_shared_segment(run_ranks):
    run_ranks("zero_copy.py", nodes=2, ranks_per_node=2)


def test_the_ddp_hook_gives_gloos_gradients_and_survives_a_failed_step(run_ranks):
    output = run_ranks("ddp.py", "--fail", nodes=2, ranks_per_node=2, seconds=90)
    assert "NO ERROR" not in output and output.count("RAISED") == 3


def test_ctrl_c_ends_everything(cluster):
    run = cluster("interrupted.py", nodes=2, ranks_per_node=1)
    for line in run.process.stdout:
        if "waiting" in line:
            break
    start = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    output, code = run.finish(20)
    assert code == 128 + signal.SIGINT, output
    assert time.monotonic() - start < 8


def test_a_hang_is_told_while_it_lasts_with_where_to_look(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("MAYPOLE_STALL_REPORT_AFTER", "100ms")
    run = cluster("hung.py", str(tmp_path / "go on"), nodes=2, ranks_per_node=1)
    seen = ""
    for line in run.process.stdout:
        seen += line
        if "until this command ends" in line:
            break
    assert re.search(r'^\[agent \d\] warning: .*"awaited" #0 has waited for .* for rank 1 on node-1 ', seen, re.MULTILINE), seen
    address, folder = re.search(r"--coordinator (\S+)` shows .* logs are in (\S+)", seen).groups()
    status = [BUILD / "bin" / "maypole", "status"]
    shown = subprocess.run(status, env={**os.environ, "MAYPOLE_COORDINATOR": address}, capture_output=True, text=True, timeout=30)
    assert shown.returncode == 0 and "node-1" in shown.stdout, shown
    assert any('"awaited" #0 has waited' in log.read_text() for log in Path(folder).glob("node-*.log"))
    (tmp_path / "go on").touch()
    output, code = run.finish(30)
    assert code == 0 and output.count("all right") == 2, output
    assert "until this command ends" not in output


def test_no_agent_is_told_with_the_socket(cluster, tmp_path):
    code = "import maypole; maypole.connect(socket='{}', rank=0, world_size=1)".format(tmp_path / "none.sock")
    from conftest import PACKAGE

    done = subprocess.run(
        ["/usr/bin/python3", "-c", code],
        env={"MAYPOLE_LIBRARY": str(BUILD / "lib" / "libmaypole.so"), "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1 and "AgentUnavailableError" in done.stderr and "none.sock" in done.stderr


def test_the_example_runs(cluster):
    run = cluster(ROOT / "client" / "python" / "examples" / "numpy_all_reduce.py", nodes=2, ranks_per_node=2)
    output, code = run.finish(30)
    assert code == 0, output
    assert "1.5" in output


def test_the_demo_trains_like_one_process(cluster):
    script = ROOT / "deploy" / "local" / "train_digits.py"
    output, code = cluster(script, "--epochs", "2", nodes=2, ranks_per_node=2).finish(90)
    assert code == 0, output
    assert "The losses agree." in output and "the same bits on all ranks" in output
