"""Metrics of the daemon, read by the parser of Prometheus' own client."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

PROGRAM = Path(sys.executable).with_name("frostline")
# Memory that is large enough to be looked at, and goes on for a minute.
TARGET = "import time; memory = bytearray(64 << 20); memory[::4096] = b'1' * (len(memory) // 4096); time.sleep(60)"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def page_of(address: str, daemon: subprocess.Popen[str]) -> tuple[str, str]:
    """The page, once it tells of the target, and its kind."""
    until = time.monotonic() + 60
    while time.monotonic() < until and daemon.poll() is None:
        time.sleep(0.2)
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
                text = answer.read().decode()
                # It begins with little of the target's memory.
                if re.search(r'frostline_memory_bytes\{.*target="a \\"target\\"".*\} \d{8,}', text):
                    return text, answer.headers["Content-Type"]
        except OSError:
            continue
    raise AssertionError(daemon.communicate(timeout=10))


@pytest.mark.skipif(os.geteuid() != 0, reason="the daemon takes root")
def test_a_foreign_parser_reads_the_metrics(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    config = tmp_path / "frostline.toml"
    with subprocess.Popen([sys.executable, "-c", TARGET]) as target:
        config.write_text(
            f"[metrics]\nlisten = \"{address}\"\n[[target]]\nname = 'a \"target\"'\npid = {target.pid}\nslow = \"none\"\n"
        )
        with subprocess.Popen([PROGRAM, "daemon", "-c", config], stderr=subprocess.PIPE, text=True) as daemon:
            try:
                text, kind = page_of(address, daemon)
            finally:
                daemon.send_signal(signal.SIGINT)
                daemon.communicate(timeout=30)
                target.kill()
    assert kind.startswith("application/openmetrics-text"), kind
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) >= 10
    for family in families.values():
        assert family.name.startswith(("frostline_", "process_")) and family.documentation, family
        assert family.type != "unknown", family
        if family.unit:
            assert family.name.endswith(family.unit), family
    memory = {sample.labels["tier"]: sample for sample in families["frostline_memory_bytes"].samples}
    assert {sample.labels["target"] for sample in memory.values()} == {'a "target"'}
    assert sum(sample.value for sample in memory.values()) > 4 << 20
