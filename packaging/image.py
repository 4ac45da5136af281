"""OCI image of a folder, with the libraries that its programs take, as a layout in a tar archive.

Usage: image.py FOLDER OUTPUT VERSION ARCHITECTURE. The same folder gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
PROGRAMS = ("usr/bin/frostline", "usr/bin/frostline-kubernetes", "usr/bin/frostline-repro", "usr/lib/libfrostline_agent.so")
ACCOUNTS = {"etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n", "etc/group": "root:x:0:\n"}
FOLDERS = ("proc", "sys", "run", "tmp", "root")


def libraries(path: Path) -> set[Path]:
    """Shared libraries of a program, the loader among them."""
    said = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return {Path(name) for name in re.findall(r"(/\S+) \(0x", said)}


def entry(name: str, size: int = 0, mode: int = 0o644, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.mtime = size, mode, kind, EPOCH
    return info


def layer(root: Path) -> bytes:
    """All of the folder, libraries where programs look for them, and accounts; as a tar archive."""
    files: dict[str, tuple[bytes, int]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode & 0o777)
    for program in PROGRAMS:
        for library in libraries(root / program):
            files[str(library).lstrip("/")] = (library.read_bytes(), 0o755)
    for name, text in ACCOUNTS.items():
        files[name] = (text.encode(), 0o644)
    folders = set(FOLDERS) | {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(folders):
            tar.addfile(entry(name, mode=0o1777 if name == "tmp" else 0o755, kind=tarfile.DIRTYPE))
        for name, (content, mode) in sorted(files.items()):
            tar.addfile(entry(name, len(content), mode), io.BytesIO(content))
    return archive.getvalue()


class Layout:
    """Blobs by digest."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def add(self, content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def write(self, path: Path, index: bytes) -> None:
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
        files |= {f"blobs/sha256/{digest}": blob for digest, blob in self.blobs.items()}
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            for name in ("blobs", "blobs/sha256"):
                tar.addfile(entry(name, mode=0o755, kind=tarfile.DIRTYPE))
            for name, content in sorted(files.items()):
                tar.addfile(entry(name, len(content)), io.BytesIO(content))


def encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main(folder: str, output: str, version: str, arch: str) -> None:
    content = layer(Path(folder))
    layout = Layout()
    packed = layout.add(gzip.compress(content, mtime=0), "layer.v1.tar+gzip")
    config = {
        "architecture": arch,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/frostline"],
            "Cmd": ["daemon"],
            "Env": ["PATH=/usr/bin"],
            "Labels": {
                "org.opencontainers.image.title": "frostline",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "(Apache-2.0 OR MIT) AND GPL-2.0-or-later",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }
    described = layout.add(encoded(config), "config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described,
        "layers": [packed],
    }
    named = layout.add(encoded(manifest), "manifest.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    layout.write(Path(output), encoded(index))


if __name__ == "__main__":
    main(*sys.argv[1:])
