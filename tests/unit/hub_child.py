"""Run as a program: a hub of one model on this machine, and a download from it. Prints what happened as JSON.

Arguments: a folder to serve, the cache's folder, and how many megabytes to take before cancelling (0: all).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    folder: Path
    fetched: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def answer(self, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        files = {entry.name: entry for entry in sorted(self.folder.iterdir())}
        if path.startswith("/api/models/owner/name/tree/"):
            self.send([{"type": "file", "path": n, "size": f.stat().st_size, "oid": n} for n, f in files.items()])
        elif path.startswith("/api/models/owner/name"):
            siblings = [{"rfilename": n, "size": f.stat().st_size} for n, f in files.items()]
            self.send({"id": "owner/name", "sha": REVISION, "siblings": siblings})
        elif path.startswith("/owner/name/resolve/") and (name := path.rpartition("/")[2]) in files:
            self.send_file(files[name], with_body)
        else:
            self.send_error(404)

    def send(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, file: Path, with_body: bool) -> None:
        data = file.read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            Hub.fetched.append(file.name)
            with contextlib.suppress(ConnectionError):  # whoever cancels goes away
                self.wfile.write(data)

    def log_message(self, *values: object) -> None:
        pass


def main() -> None:
    Hub.folder = Path(sys.argv[1])
    limit = int(sys.argv[3])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_CACHE": sys.argv[2]}
    os.environ |= {"HF_HUB_OFFLINE": "0", "HF_TOKEN": "", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    from engine.hub import cached_snapshot, download_model, download_plan
    from engine.model_files import LoadError

    stages: list[tuple[str, int, int]] = []

    def progress(stage: str, done: int, total: int) -> bool:
        stages.append((stage, done, total))
        return bool(limit) and done >= limit

    plan = download_plan("owner/name")
    try:
        outcome = str(download_model("owner/name", progress))
    except LoadError as error:
        outcome = f"{type(error).__name__}: {error}"
    kept = cached_snapshot("owner/name")
    after = download_plan("owner/name").missing_bytes
    print(json.dumps({"plan": [list(file) for file in plan.files], "missing": plan.missing_bytes, "outcome": outcome}))
    print(json.dumps({"stages": stages, "fetched": Hub.fetched, "kept": kept and str(kept), "missing after": after}))
    server.shutdown()


if __name__ == "__main__":
    main()
