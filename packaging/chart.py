"""Checks of the chart as it is rendered: schemas, privileges, and what the daemon makes of its configuration.

Usage: chart.py CHART, with `helm` in PATH, the program by the variable FROSTLINE, and the Python package kubernetes-validate.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

# Oldest and newest cluster that the chart is for, of those whose schemas there are.
CLUSTERS = ("1.25", "1.31", kubernetes_validate.latest_version())
# Values that are tried, by name.
VARIANTS: dict[str, list[str]] = {
    "defaults": [],
    "everything": [
        "--set-string", "daemon.save=1GiB", "--set", "metrics.textfileFolder=/var/lib/node_exporter",
        "--set", "targets[0].name=a", "--set", "targets[0].command=b", "--set-string", "targets[0].max_slowdown=1%",
        "--set", "targets[0].priority=70", "--set", "imagePullSecrets[0].name=key", "--set", "image.tag=x",
        "--set", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key=metadata.name",
        "--set", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator=In",
        "--set", "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values[0]=n",
    ],
    "another account": ["--set", "serviceAccount.create=false", "--set", "serviceAccount.name=other"],
}
# Values that the chart's own schema refuses, and what it names.
REFUSED: dict[str, str] = {
    "daemon.fsat=1GiB": "fsat",
    "image.pullPolicy=Sometimes": "pullPolicy",
    "metrics.textfileFolder=relative": "textfileFolder",
    "tolerance=x": "tolerance",
}  # fmt: skip


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["helm", *words], capture_output=True, text=True, check=False)


def check(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"chart: FAILED: {what}")


def template(chart: str, version: str, *words: str) -> subprocess.CompletedProcess[str]:
    return helm("template", "tiers", chart, "--namespace", "frost", "--kube-version", version, *words)


def rendered(chart: str, version: str, words: list[str]) -> dict[str, dict[str, Any]]:
    """Objects by kind; each is there once."""
    done = template(chart, version, *words)
    check(done.returncode == 0, done.stderr)
    objects = [value for value in yaml.safe_load_all(done.stdout) if value]
    kinds = {value["kind"]: value for value in objects}
    check(len(kinds) == len(objects), f"a kind comes twice: {[value['kind'] for value in objects]}")
    return kinds


def valid(name: str, version: str, objects: dict[str, dict[str, Any]]) -> None:
    for kind, value in objects.items():
        try:
            kubernetes_validate.validate(value, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            check(False, f"{name}: {kind} in Kubernetes {version}: {error.message} at {list(error.path)}")


def least_privileges(name: str, objects: dict[str, dict[str, Any]]) -> None:
    """What each container may: the daemon on the node, the other in the cluster, none both."""
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    containers = {container["name"]: container for container in pod["containers"]}
    token = "/var/run/secrets"
    mounts = {name: [mount["mountPath"] for mount in one["volumeMounts"]] for name, one in containers.items()}
    check(pod["automountServiceAccountToken"] is False, f"{name}: all containers have the token")
    check(not any(path.startswith(token) for path in mounts["daemon"]), f"{name}: the daemon has the token")
    check(any(path.startswith(token) for path in mounts["pods"]), f"{name}: nobody has the token")
    rights = containers["pods"]["securityContext"]
    check(rights["runAsNonRoot"] and not rights["allowPrivilegeEscalation"], f"{name}: more rights than needed")
    check(rights["capabilities"] == {"drop": ["ALL"]} and "privileged" not in rights, f"{name}: more rights than needed")
    read_only = {mount["mountPath"]: mount.get("readOnly", False) for mount in containers["pods"]["volumeMounts"]}
    writable = [path for path, only in read_only.items() if not only]
    check(writable == ["/run/frostline-pods"], f"{name}: may write {writable}")
    rules = objects["ClusterRole"]["rules"]
    check(rules == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}], f"{name}: {rules}")
    declared = {volume["name"] for volume in pod["volumes"]}
    used = {mount["name"] for one in [*pod["containers"], *pod["initContainers"]] for mount in one["volumeMounts"]}
    check(declared == used, f"{name}: volumes {declared ^ used}")
    account = pod["serviceAccountName"]
    check(objects["ClusterRoleBinding"]["subjects"][0]["name"] == account, f"{name}: rights are another's than {account}'s")
    check(objects.get("ServiceAccount", {"metadata": {"name": account}})["metadata"]["name"] == account, f"{name}: no {account}")


def configuration(name: str, objects: dict[str, dict[str, Any]], targets: int) -> None:
    """The daemon takes it, with targets as the other program writes them."""
    text = objects["ConfigMap"]["data"]["frostline.toml"]
    with tempfile.TemporaryDirectory() as folder:
        included = Path(folder, "targets.toml")
        included.write_text('[[target]]\nname = "shop/cart"\ncgroup = "/sys/fs/cgroup/kubepods/pod1"\nmax_slowdown = "2%"\n')
        file = Path(folder, "frostline.toml")
        file.write_text(text.replace("/run/frostline-pods/targets.toml", str(included)))
        words = [os.environ["FROSTLINE"], "daemon", "config", "check", "-c", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        counted = re.search(r"right, (\d+) target", done.stdout)
        check(counted is not None and int(counted[1]) == targets + 1, f"{name}: {done.stdout}{done.stderr}\n{text}")


def main(chart: str) -> None:
    about = yaml.safe_load(Path(chart, "Chart.yaml").read_text())
    version = re.search(r'(?m)^version = "(.*)"', Path("Cargo.toml").read_text())
    check(version is not None and about["version"] == about["appVersion"] == version[1], "the chart has another version")
    done = helm("lint", "--strict", "--kube-version", CLUSTERS[-1], chart)
    check(done.returncode == 0, done.stdout + done.stderr)
    for name, words in VARIANTS.items():
        for version in CLUSTERS:
            objects = rendered(chart, version, words)
            valid(name, version, objects)
        least_privileges(name, objects)
        configuration(name, objects, targets=int(name == "everything"))
        print(f"chart: {name}: {len(objects)} objects right for Kubernetes {', '.join(CLUSTERS)}")
    for value, named in REFUSED.items():
        done = template(chart, CLUSTERS[-1], "--set", value)
        check(done.returncode != 0 and named in done.stderr, f"--set {value} is taken")
    print(f"chart: {len(REFUSED)} wrong values refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
