"""Metrics of the daemon: Prometheus' own client parses them, a real Prometheus scrapes and judges them, and Grafana's
own types have every field of the dashboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.openmetrics.parser import text_string_to_metric_families

PROGRAM = Path(sys.executable).with_name("frostline")
CONFIGS = Path(__file__).parents[2] / "configs"
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


@contextmanager
def daemon(folder: Path) -> Iterator[tuple[str, str, str]]:
    """A daemon that manages a program: its address, its page, and the kind of that."""
    address = f"127.0.0.1:{free_port()}"
    config = folder / "frostline.toml"
    with subprocess.Popen([sys.executable, "-c", TARGET]) as target:
        config.write_text(
            f"[metrics]\nlisten = \"{address}\"\n[[target]]\nname = 'a \"target\"'\npid = {target.pid}\nslow = \"none\"\n"
        )
        with subprocess.Popen([PROGRAM, "daemon", "-c", config], stderr=subprocess.PIPE, text=True) as daemon:
            try:
                yield address, *page_of(address, daemon)
            finally:
                daemon.send_signal(signal.SIGINT)
                daemon.communicate(timeout=30)
                target.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="the daemon takes root")
def test_a_foreign_parser_reads_the_metrics(tmp_path: Path) -> None:
    with daemon(tmp_path) as (_, text, kind):
        pass
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


def questions() -> list[str]:
    """What the dashboard asks, of all targets."""
    board = json.loads((CONFIGS / "grafana/frostline.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    filled = [re.sub(r"\$(instance|target)\b", ".*", text).replace("$__rate_interval", "10s") for text in asked]
    assert len(filled) >= 12 and not any("$" in text for text in filled), filled
    return filled


@pytest.mark.skipif(os.geteuid() != 0, reason="the daemon takes root")
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus")
def test_a_real_prometheus_scrapes_judges_and_answers_the_dashboard(tmp_path: Path) -> None:
    url = f"127.0.0.1:{free_port()}"

    def ask(path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"http://{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def until(what: str, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(OSError):
                if is_so():
                    return
            time.sleep(0.2)
        raise AssertionError(what)

    with daemon(tmp_path) as (address, _, _):
        config = tmp_path / "prometheus.json"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(CONFIGS / "prometheus/frostline.rules.yml")],
                    "scrape_configs": [{"job_name": "frostline", "static_configs": [{"targets": [address]}]}],
                }
            )
        )
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        with subprocess.Popen([*command, f"--web.listen-address={url}", "--log.level=error"]) as prometheus:
            try:
                until("it is scraped", lambda: [one["health"] for one in ask("targets")["activeTargets"]] == ["up"])

                def rules() -> list[dict[str, Any]]:
                    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]

                until("alerts are judged", lambda: {rule["health"] for rule in rules()} == {"ok"})
                assert len(rules()) == 6
                memory = ask("query", query="sum by (target) (frostline_memory_bytes)")["result"]
                assert [one["metric"]["target"] for one in memory] == ['a "target"']
                assert float(memory[0]["value"][1]) > 4 << 20
                until("rates are known", lambda: bool(ask("query", query="rate(frostline_cpu_seconds_total[10s])")["result"]))
                answered = [text for text in questions() if ask("query", query=text)["result"]]
                # A target that nothing is moved of has no goal, loss or limit.
                assert len(answered) * 2 >= len(questions()), answered
            finally:
                prometheus.terminate()


def missing(whole: Any, part: Any, path: str = "") -> list[str]:
    """Where a JSON value has something that another has not, or has otherwise."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return [lack for key in whole for lack in missing(whole[key], part.get(key), f"{path}/{key}")]
    if isinstance(whole, list) and isinstance(part, list) and len(whole) == len(part):
        return [lack for index, pair in enumerate(zip(whole, part)) for lack in missing(*pair, f"{path}/{index}")]
    return [] if whole == part else [path]


def test_grafana_s_types_have_every_field_of_the_dashboard() -> None:
    register_default_plugins()

    def lost(board: dict[str, Any]) -> list[str]:
        return missing(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board))))

    board = json.loads((CONFIGS / "grafana/frostline.json").read_text())
    assert lost(board) == []
    board["panels"][0]["griddPos"] = {}
    assert lost(board) == ["/panels/0/griddPos"], "a field that Grafana does not know is found"
