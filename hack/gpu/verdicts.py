#!/usr/bin/env python3
"""Records the four verdicts on a real GPU: healthy, stopped, slow, killed.

    python3 hack/gpu/verdicts.py OUT             # from the repository's root, with bin/aicr built
    python3 hack/gpu/verdicts.py OUT --runs stopped,slow,killed --recipe knee.yaml

Four server.py workers share the GPU behind frontend.py. `aicr knee` finds their
knee and writes a recipe; each run is `aicr validate` against that recipe, with a
fault of its own: none; worker 1 stopped for 5 s, again 20 s later; worker 2 stopped
for half of the time, 20 ms at a time; worker 3 killed. OUT/NAME.tar.gz is the run
directory; NAME/gpu in it holds what the command printed and what nvidia-smi reported
of each process under that load. Without --recipe the knee is searched first and comes
back as OUT/knee.yaml and OUT/knee.json; `--runs knee` does nothing else.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import record
from record import MODEL, Session

WORKERS = 4
EPISODE = 10.0
STOPPED_FOR = 5.0
FAULT_AFTER = 20.0  # into the command: the half-load look and the first episode are over
STOP_EACH = 20.0
SLICE = 0.02  # of a slow worker: as long stopped as running
LIMITS = {"knee": 370.0, "healthy": 220.0, "stopped": 120.0, "slow": 120.0, "killed": 120.0}


def pages(s: Session) -> list[str]:
    return [f"--worker-metrics=http://127.0.0.1:{port}/metrics" for port in s.ports]


def endpoint(s: Session) -> list[str]:
    return ["--url", f"http://127.0.0.1:{s.front}", "--model", MODEL, "--workers", str(len(s.ports))]


def find_knee(s: Session, out: Path) -> Path | None:
    recipe = out / "knee.yaml"
    command = [s.aicr, "knee", *endpoint(s), "--isl", "128", "--osl", "32", "--ramp", "1s", "--first-per-gpu", "2", "--max-per-gpu", "64",
               "--level-duration", "4s", "--reference-duration", "10s", "--budget", "5m30s", "--write", str(recipe), "-o", "json"]
    code = s.finish("knee", s.start("knee", command), LIMITS["knee"])
    shutil.copy(s.folder / "knee.out", out / "knee.json")
    if code != 0:
        s.miss(f"the knee: exit {code}")
        return None
    return recipe


def validate(s: Session, name: str, recipe: Path, workers: list[subprocess.Popen], out: Path) -> None:
    """One run, its fault, its verdict."""
    run = s.folder / f"run-{name}"
    gpu = ["--gpu", "local"] if s.smi else []
    command = [s.aicr, "validate", *endpoint(s), *pages(s), *gpu, "--recipe", str(recipe), "--profile", "quick", "--episode-duration", f"{EPISODE:.0f}s",
               "--ramp", "1s", "--run", str(run)]
    began = time.monotonic()
    process = s.start(name, command)
    if process is None:
        return
    ended = threading.Event()
    fault = threading.Thread(target=FAULTS[name], args=(s, workers, began, ended))
    fault.start()
    if s.smi:
        s.sleep_until(began + FAULT_AFTER + 2)
        keep_processes(s, name, workers)
    code = s.finish(name, process, LIMITS[name])
    ended.set()
    fault.join()
    s.event("verdict", run=name, exit=code, verdict=verdict(run))
    with tarfile.open(out / f"{name}.tar.gz", "w:gz") as tar:
        tar.add(run, arcname=name)
        for path in sorted(s.folder.glob(f"{name}[-.]*")):
            tar.add(path, arcname=f"{name}/gpu/{path.name.removeprefix(f'{name}-gpu-')}")


def keep_processes(s: Session, name: str, workers: list[subprocess.Popen]) -> None:
    """What nvidia-smi reports of each process, and which worker each process is."""
    (s.folder / f"{name}-gpu-workers.csv").write_text(
        "pid,worker\n" + "".join(f"{w.pid},127.0.0.1:{port}\n" for w, port in zip(workers, s.ports)))
    s.keep(f"{name}-gpu-pmon.txt", [s.smi, "pmon", "-c", "5", "-s", "um", "-o", "DT"], 8)
    s.keep(f"{name}-gpu-apps.csv", [s.smi, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,nounits"], 3)


def verdict(run: Path) -> str:
    try:
        v = json.loads((run / "verdict.json").read_text())
    except (OSError, ValueError) as error:
        return str(error)
    found = [f"{f.get('id')} {f.get('shown') or f.get('workers') or ''}" for f in v.get("findings", [])]
    return f"{v.get('verdict')}: {v.get('reason')} {found}"


def none(s: Session, workers: list[subprocess.Popen], began: float, ended: threading.Event) -> None:
    """A healthy fleet."""


def stop(s: Session, workers: list[subprocess.Popen], began: float, ended: threading.Event) -> None:
    s.sleep_until(began + FAULT_AFTER)
    while not ended.is_set():
        record.stop_for_a_while(s, "stopped", workers[1], [], time.monotonic())
        ended.wait(STOP_EACH)


def slow(s: Session, workers: list[subprocess.Popen], began: float, ended: threading.Event) -> None:
    s.event("slow", worker=record.WORKER_IDS[2], slice_s=SLICE)
    try:
        while not ended.is_set():
            workers[2].send_signal(signal.SIGSTOP)
            time.sleep(SLICE)
            workers[2].send_signal(signal.SIGCONT)
            time.sleep(SLICE)
    finally:
        workers[2].send_signal(signal.SIGCONT)


def kill(s: Session, workers: list[subprocess.Popen], began: float, ended: threading.Event) -> None:
    s.sleep_until(began + FAULT_AFTER)
    workers[3].kill()
    s.event("sigkill", worker=record.WORKER_IDS[3])


FAULTS = {"healthy": none, "stopped": stop, "slow": slow, "killed": kill}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--aicr", default="bin/aicr")
    parser.add_argument("--size", help="of the model; server.py's own default when not given")
    parser.add_argument("--runs", default=",".join(FAULTS), help="the runs to make, in their order; killed comes last")
    parser.add_argument("--recipe", type=Path, help="validate against this one instead of looking for the knee")
    parser.add_argument("--first-port", type=int, default=18100)
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
    with tempfile.TemporaryDirectory(prefix="aicr-gpu-") as folder:
        s = Session(Path(folder), os.path.abspath(options.aicr), options.first_port, WORKERS, limit=580.0)
        try:
            s.keep("aicr-version.txt", [s.aicr, "version"], 5)
            if s.smi:
                s.keep("nvidia-smi.txt", [s.smi], 10)
            workers = record.start_fleet(s, options.size)
            recipe = options.recipe or find_knee(s, out)
            for name in options.runs.split(","):
                if recipe and name in FAULTS:
                    validate(s, name, recipe, workers, out)
        except Exception as error:
            s.miss(f"the rest of the session: {error!r}")
        finally:
            s.end_all()
            s.say("missed: " + ("; ".join(s.missed) or "nothing"))
            shutil.copy(s.folder / "session.log", out / "session.log")
            for path in s.folder.glob("*.err"):
                s.say(f"{path.name}: {path.read_text(errors='replace')[-600:]}")
    return 1 if s.missed else 0


if __name__ == "__main__":
    sys.exit(main())
