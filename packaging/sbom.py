"""Software bill of materials of the programs, SPDX 2.3: the crates that they are made of.

Usage: sbom.py VERSION, in the repository.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys

PROGRAMS = {"frostline", "frostline-agent", "frostline-kubernetes", "frostline-repro"}


def crates() -> list[dict[str, str]]:
    """Crates that the programs take on this system, with their licences, by name and version."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    todo = [id for id, package in packages.items() if package["name"] in PROGRAMS]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            is_in = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_in and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    found = [packages[id] for id in seen]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def package(crate: dict[str, str]) -> dict[str, object]:
    name, version = crate["name"], crate["version"]
    return {
        "SPDXID": f"SPDXRef-{name}-{version}".replace("_", "-").replace("+", "-"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": (crate.get("license") or "NOASSERTION").replace("/", " OR "),
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:cargo/{name}@{version}",
            }
        ],
    }


def main(version: str) -> None:
    packages = [package(crate) for crate in crates()]
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"frostline-{version}",
        "documentNamespace": f"urn:frostline:{version}:{int(created.timestamp())}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: packaging/sbom.py"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": one["SPDXID"]}
            for one in packages
            if one["name"] in PROGRAMS
        ],
    }
    json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
