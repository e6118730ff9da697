#!/usr/bin/env python3
"""Records `aicr watch` on a real GPU: its start, a healthy run, a stopped worker.

    python3 hack/gpu/record.py OUT          # from the repository's root, with bin/aicr built

It starts two server.py workers and frontend.py on the loopback, waits for a real
completion from each, and records three times: the GPU alone as it wakes up; then
`aicr watch` over 40 s with 20 s of load from `aicr bench` inside; then the same
with worker 1 stopped (SIGSTOP) for 5 s in the middle of the load. Around that it keeps what nvidia-smi, /proc
and the metrics pages say. All of it comes back as OUT/out.tar.gz, with
OUT/session.log beside it: the same log, readable without unpacking.

A missing tool or a part that fails does not end the session: the log says what
was missed, and the exit status is 1. The whole ends within 5 minutes. Without a
GPU it records the same with a tiny model on the CPU.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = "hack/llama"
WORKER_IDS = [f"a1c000000000000{i}" for i in range(4)]

SESSION = 235.0  # seconds for everything but the ending, which has its own limits
START = 90.0  # for the workers to answer
WAKING = 40.0  # from a GPU that nobody uses to the end of the warm-up
WATCH = 40.0
IDLE_BEFORE = 8.0
LOAD = 20.0
LOOK_AFTER = 5.0  # into the load: the metrics pages and nvidia-smi
STOP_AFTER = 8.0  # into the load
STOPPED_FOR = 5.0
PART_LIMIT = 16 << 20  # of a file that comes back

SMI_FIELDS = (
    "timestamp,index,uuid,name,utilization.gpu,utilization.memory,power.draw,clocks.sm,clocks.mem,temperature.gpu,memory.used,"
    "clocks_event_reasons.active,clocks_event_reasons.hw_slowdown,clocks_event_reasons.hw_thermal_slowdown,"
    "clocks_event_reasons.hw_power_brake_slowdown,clocks_event_reasons.sw_thermal_slowdown,clocks_event_reasons.sw_power_cap,"
    "ecc.errors.uncorrected.volatile.total,remapped_rows.failure,retired_pages.pending"
)
SMI_OLDER_FIELDS = SMI_FIELDS.replace("clocks_event_reasons", "clocks_throttle_reasons")


def utc_now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Session:
    """The time that is left, the log, and the processes to end."""

    def __init__(self, folder: Path, aicr: str, first_port: int, workers: int = 2, limit: float = SESSION):
        self.folder, self.aicr = folder, aicr
        self.deadline = time.monotonic() + limit
        self.missed: list[str] = []
        self.started: list[subprocess.Popen] = []
        self.log_file = open(folder / "session.log", "w", buffering=1)
        self.event_file = open(folder / "events.jsonl", "w", buffering=1)
        self.ports = list(range(first_port, first_port + workers))
        self.front = first_port + 9
        self.smi = shutil.which("nvidia-smi")

    def left(self, limit: float) -> float:
        return max(0.1, min(limit, self.deadline - time.monotonic()))

    def say(self, text: str) -> None:
        line = f"{utc_now()} {text}"
        print(line, flush=True)
        self.log_file.write(line + "\n")

    def event(self, name: str, **facts: object) -> None:
        """A moment that a test will want to find again."""
        self.event_file.write(json.dumps({"time": utc_now(), "event": name, **facts}) + "\n")
        self.say(f"{name} " + " ".join(f"{key}={value}" for key, value in facts.items()))

    def miss(self, what: str) -> None:
        self.missed.append(what)
        self.say(f"MISSED {what}")

    def sleep_until(self, moment: float) -> None:
        time.sleep(max(0.0, min(moment, self.deadline) - time.monotonic()))

    def start(self, name: str, command: list[str], folder: Path | None = None) -> subprocess.Popen | None:
        """Starts a process whose output goes to NAME.out and NAME.err."""
        base = (folder or self.folder) / name
        env = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            with open(f"{base}.out", "wb") as out, open(f"{base}.err", "wb") as err:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True)
        except OSError as error:
            self.miss(f"{name}: {error}")
            return None
        self.started.append(process)
        self.say(f"start {name} pid={process.pid}: {' '.join(command)}")
        return process

    def finish(self, name: str, process: subprocess.Popen | None, limit: float) -> int | None:
        """Waits for a process; interrupts and then kills it when its time is over."""
        if process is None:
            return None
        for number, patience in ((None, self.left(limit)), (signal.SIGINT, 5.0), (signal.SIGKILL, 5.0)):
            if number:
                self.miss(f"{name} did not end in time: {signal.Signals(number).name}")
                process.send_signal(number)
            try:
                code = process.wait(patience)
                self.say(f"end {name} pid={process.pid} exit={code}")
                return code
            except subprocess.TimeoutExpired:
                continue
        return None

    def end_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def keep(self, name: str, command: list[str], limit: float, forever: bool = False, lines: int | None = None) -> int | None:
        """Keeps what a command prints, both streams, and its exit status."""
        stopped = False
        try:
            with open(self.folder / name, "wb") as out:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
                try:
                    process.wait(self.left(limit))
                except subprocess.TimeoutExpired:
                    stopped = True
                    process.terminate()
                    process.wait(5)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.miss(f"{name}: {error}")
            return None
        path = self.folder / name
        if lines is not None:
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
        if stopped and not forever:
            self.miss(f"{name}: `{command[0]}` did not end within {limit:.0f} s")
        how = "stopped by us" if stopped else f"exit={process.returncode}"
        self.say(f"kept {name}: {path.stat().st_size} bytes, {how}")
        return None if stopped else process.returncode

    def fetch(self, name: str, port: int, limit: float = 2.0) -> None:
        """Keeps one metrics page."""
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=self.left(limit)) as page:
                text = page.read()
        except OSError as error:
            self.say(f"no {name} after {time.monotonic() - began:.3f} s: {error}")
            return
        (self.folder / name).write_bytes(text)
        self.say(f"kept {name}: {len(text)} bytes in {1e3 * (time.monotonic() - began):.0f} ms")


def keep_machine(s: Session) -> None:
    """What the machine is, and what its nvidia-smi answers while nothing runs."""
    s.say(f"machine: {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    (s.folder / "uname.txt").write_text(" ".join(platform.uname()) + "\n")
    keep_pressure(s, s.folder)
    if s.smi is None:
        s.miss("nvidia-smi: not on the PATH, so no GPU is recorded")
        return
    s.keep("nvidia-smi.txt", [s.smi], 10)
    s.keep("nvidia-smi-q.txt", [s.smi, "-q"], 10, lines=260)
    s.keep("nvidia-smi-help-query-gpu.txt", [s.smi, "--help-query-gpu"], 10, lines=400)
    s.keep("nvidia-smi-unknown-field.txt", [s.smi, "--query-gpu=index,no.such.field", "--format=csv,nounits"], 5)
    for name, fields in (("new", SMI_FIELDS), ("older", SMI_OLDER_FIELDS)):
        code = s.keep(f"nvidia-smi-idle-{name}-names.csv", smi_loop(s, fields), 3, forever=True)
        if code:  # it refused a field: which?
            for field in fields.split(","):
                s.keep(f"nvidia-smi-field-{name}-{field}.txt", [s.smi, f"--query-gpu={field}", "--format=csv,nounits"], 1)


def keep_pressure(s: Session, folder: Path) -> None:
    for path in (*(Path("/proc/pressure") / resource for resource in ("cpu", "io", "memory")), Path("/proc/loadavg")):
        try:
            (folder / ("-".join(path.parts[1:]) + ".txt")).write_text(path.read_text())
        except OSError as error:
            s.miss(f"{path}: {error}")


def smi_loop(s: Session, fields: str) -> list[str]:
    return [s.smi, f"--query-gpu={fields}", "--format=csv,nounits", "-lms", "500"]


def start_fleet(s: Session, size: str | None) -> list[subprocess.Popen | None]:
    """The workers, the frontend and the self-test, side by side; the workers come back."""
    more = ["--size", size] if size else []
    workers = [
        s.start(f"worker{i}", [sys.executable, str(HERE / "server.py"), "--port", str(port), "--worker-id", WORKER_IDS[i], "--model", MODEL, *more])
        for i, port in enumerate(s.ports)
    ]
    front = s.start("frontend", [sys.executable, str(HERE / "frontend.py"), "--port", str(s.front), "--router-mode", "least-loaded",
                                 *(f"--worker=127.0.0.1:{port}" for port in s.ports)])
    test = s.start("selftest", [sys.executable, str(HERE / "server.py"), "--self-test"])
    end = time.monotonic() + s.left(START)
    for name, port, process in (*((f"worker{i}", port, workers[i]) for i, port in enumerate(s.ports)), ("frontend", s.front, front)):
        wait_for_answer(s, name, port, process, end)
    if s.finish("selftest", test, end - time.monotonic()) not in (0, None):
        s.miss("the self-test found wrong tokens")
    return workers


def wait_for_answer(s: Session, name: str, port: int, process: subprocess.Popen | None, end: float) -> None:
    """A health page proves little: only a completion shows that a worker serves."""
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "are you there"}], "max_tokens": 4, "ignore_eos": True}).encode()
    why: object = "never started"
    while process and process.poll() is None and time.monotonic() < end:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                value = json.loads(answer.read())
            s.say(f"{name} answers: {value['choices'][0]['message']['content']!r} {value['usage']}")
            return
        except (OSError, ValueError, KeyError) as error:
            why = error
            time.sleep(0.25)
    if process and process.returncode is not None:
        why = f"exit {process.returncode}"
    s.miss(f"{name} does not answer: {why}")


def bench(s: Session, folder: Path, concurrency: int, *length: str) -> subprocess.Popen | None:
    return s.start("bench", [s.aicr, "bench", "--url", f"http://127.0.0.1:{s.front}", "--model", MODEL, "-c", str(concurrency),
                             "--isl", "128", "--osl", "128", "--random-seed", "5", *length,
                             "--output-artifact-dir", str(folder / "bench")], folder)


def record(s: Session, name: str, concurrency: int, victim: subprocess.Popen | None) -> None:
    """One recording: idle, load, idle. A victim is stopped in the middle of the load."""
    folder = s.folder / name
    folder.mkdir()
    began = time.monotonic()
    s.event("watch-begins", run=name)
    gpu = ["--gpu", "local"] if s.smi else []
    watch = s.start("watch", [s.aicr, "watch", *(f"--worker-metrics=http://127.0.0.1:{port}/metrics" for port in s.ports),
                              f"--frontend-metrics=http://127.0.0.1:{s.front}/metrics", *gpu, "--node-metrics", "local",
                              "--record", str(folder / "record"), "--duration", f"{WATCH:.0f}s"], folder)
    s.sleep_until(began + IDLE_BEFORE)
    loaded = time.monotonic()
    s.event("load-begins", run=name, concurrency=concurrency)
    load = bench(s, folder, concurrency, "--benchmark-duration", f"{LOAD:.0f}")
    s.sleep_until(loaded + LOOK_AFTER)
    pages = [*((f"worker{i}", port) for i, port in enumerate(s.ports)), ("frontend", s.front)]
    for page, port in pages:
        s.fetch(f"{name}/metrics-{page}-under-load.txt", port)
    keep_pressure(s, folder)
    if victim:
        stop_for_a_while(s, name, victim, pages, loaded + STOP_AFTER)
    elif s.smi:
        s.keep(f"{name}/nvidia-smi-load.csv", smi_loop(s, SMI_FIELDS), 3, forever=True)
        s.keep(f"{name}/nvidia-smi-processes.csv", [s.smi, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,nounits"], 3)
    code = s.finish(f"bench of {name}", load, loaded + LOAD + 25 - time.monotonic())
    s.event("load-ended", run=name, exit=code)
    if load and code != 0:
        s.miss(f"bench of {name} ended with {code}")
    code = s.finish(f"watch of {name}", watch, began + WATCH + 6 - time.monotonic())
    s.event("watch-ended", run=name, exit=code)
    if watch and code != 0:
        s.miss(f"watch of {name} ended with {code}")
    for page, port in pages:
        s.fetch(f"{name}/metrics-{page}-after.txt", port)


def stop_for_a_while(s: Session, name: str, victim: subprocess.Popen, pages: list[tuple[str, int]], moment: float) -> None:
    s.sleep_until(moment)
    victim.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        s.event("sigstop", run=name, worker=WORKER_IDS[1], pid=victim.pid)
        s.sleep_until(stopped + 0.2)
        s.say(f"worker1's state: {process_state(victim.pid)}")
        s.sleep_until(stopped + 2)
        for page, port in pages:
            s.fetch(f"{name}/metrics-{page}-while-stopped.txt", port, limit=0.5)
        s.sleep_until(stopped + STOPPED_FOR)
    finally:
        victim.send_signal(signal.SIGCONT)
        s.event("sigcont", run=name, worker=WORKER_IDS[1], pid=victim.pid, stopped_s=round(time.monotonic() - stopped, 3))


def process_state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError as error:
        return str(error)


def pack(s: Session, out: Path) -> None:
    """One archive, cut into parts where it is more than one file may hold."""
    archive = out / "out.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(s.folder, arcname="gpu")
    shutil.copy(s.folder / "session.log", out / "session.log")
    size = archive.stat().st_size
    print(f"{utc_now()} packed {archive}: {size} bytes", flush=True)
    if size > PART_LIMIT:
        with open(archive, "rb") as whole:
            for number, part in enumerate(iter(lambda: whole.read(PART_LIMIT), b"")):
                (out / f"out.tar.gz.{number:02d}").write_bytes(part)
        archive.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder for out.tar.gz and session.log")
    parser.add_argument("--aicr", default="bin/aicr")
    parser.add_argument("--size", help="of the model; server.py's own default when not given")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--first-port", type=int, default=18100)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
    with tempfile.TemporaryDirectory(prefix="aicr-gpu-") as folder:
        s = Session(Path(folder), os.path.abspath(options.aicr), options.first_port)
        try:
            s.keep("aicr-version.txt", [s.aicr, "version"], 5)
            keep_machine(s)
            # A GPU that no process holds is the only one whose clocks are down.
            (s.folder / "start").mkdir()
            waking = s.start("watch", [s.aicr, "watch", "--gpu", "local", "--node-metrics", "local", "--record", str(s.folder / "start" / "record"),
                                       "--duration", f"{WAKING}s"], s.folder / "start")
            workers = start_fleet(s, options.size)
            warm_up = s.folder / "warm-up"
            warm_up.mkdir()
            s.finish("warm-up", bench(s, warm_up, options.concurrency, "--request-count", str(2 * options.concurrency)), 20)
            if s.finish("watch of start", waking, WAKING + 6) != 0:
                s.miss("watch of start")
            record(s, "healthy", options.concurrency, None)
            record(s, "stopped", options.concurrency, workers[1])
        except Exception as error:
            s.miss(f"the rest of the session: {error!r}")
        finally:
            s.end_all()
            s.say("missed: " + ("; ".join(s.missed) or "nothing"))
            pack(s, options.out)
    return 1 if s.missed else 0


if __name__ == "__main__":
    sys.exit(main())
