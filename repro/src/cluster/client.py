"""Work for a cluster of Dask, as `frostline-repro` asks for it: one JSON object a line, both ways.

A line has a number, words for the program and a text for its input; an answer has the number, and what the program printed or
an error. Workers need nothing but Dask: the program is sent to each once.
"""

import hashlib
import json
import sys
import threading
import time
from pathlib import Path

from distributed import Client, as_completed

# As often as a worker may die under a piece.
RETRIES = 3
# Between two looks for what has ended (s).
PAUSE = 0.02


def perform(program, digest, words, text):
    """What the program prints; it is put into the worker's folder the first time."""
    import os
    import subprocess
    import tempfile
    from pathlib import Path

    from distributed import get_worker

    folder = Path(get_worker().local_directory)
    file = folder / f"frostline-repro-{digest}"
    if not file.exists():
        descriptor, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "wb") as whole:
            whole.write(program)
        os.chmod(name, 0o700)
        os.replace(name, file)
    done = subprocess.run([file, "--quiet", *words], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


def main(address, path):
    program = Path(path).read_bytes()
    digest = hashlib.sha256(program).hexdigest()[:16]
    with Client(address) as client:
        told = threading.Lock()
        numbers = {}
        completed = as_completed()
        ended = threading.Event()

        def answer(**line):
            with told:
                print(json.dumps(line), flush=True)

        def hear():
            sent = None
            for rank, line in enumerate(sys.stdin):
                if sent is None:
                    client.wait_for_workers(1)
                    sent = client.scatter(program, broadcast=True, hash=False)
                asked = json.loads(line)
                work = (sent, digest, asked["words"], asked["text"])
                future = client.submit(perform, *work, pure=False, priority=-rank, retries=RETRIES)
                numbers[future.key] = asked["number"]
                completed.add(future)
            ended.set()

        answer(workers=len(client.scheduler_info(n_workers=-1)["workers"]))
        threading.Thread(target=hear, daemon=True).start()
        while not (ended.is_set() and completed.is_empty()):
            for future in completed.next_batch(block=False) if completed.has_ready() else ():
                number = numbers.pop(future.key)
                error = future.exception()
                if error is None:
                    answer(number=number, output=future.result())
                else:
                    answer(number=number, error=str(error) or type(error).__name__)
            time.sleep(PAUSE)


main(*sys.argv[1:])
