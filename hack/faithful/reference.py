#!/usr/bin/env python3
"""Records what the reference model says, for the Go simulator to be held against.

The model, worker_sim.py, stays outside this repository: --model names its folder.
Every case is played with the same seeds, one after the other, and each play is a
row of testdata/reference.csv:

  case, seed
  host_factor     the jitters that the model drew: of the frontend's cost of a request
  step_factor     (its cost of a token has the square root of it), and of the steps
  throughput      tokens of the completed requests a second, from the start of the
                  measured part to the last completion, so the drain counts
  ttft_p50_ms     of the measured requests, nearest rank, counted from the send
  ttft_p99_ms
  peak_running    the most sequences that one worker ran at once
  share_spread    most tokens of a worker over the fewest, among those that served
                  any; an absent worker does not count

The first wave (one request a slot, then a barrier) is the model's warm-up. It is
in peak_running and share_spread and in nothing else. The model serves every
prompt with 94 % of it cached, whatever the prompts are.

  nice -n 19 python3 hack/faithful/reference.py --model ../shared/model
  python3 hack/faithful/reference.py --summary        the table of means, from the file
"""

import argparse
import csv
import importlib
import math
import pathlib
import random
import statistics
import sys

FILE = pathlib.Path(__file__).parent / "testdata" / "reference.csv"
JITTERS = ("host_factor", "step_factor")
FIGURES = ("throughput", "ttft_p50_ms", "ttft_p99_ms", "peak_running", "share_spread")
SEEDS = 100


def cases(model):
    """What each case asks of the model, in the order of the file."""
    slow_host = dict(model.EKS, c_req=model.EKS["c_req"] * 3.5, c_tok=model.EKS["c_tok"] * 3.5)
    # The default operating point, but for its ramp: users come in over 1 s, and stay
    # for 50. The model's client sends nothing that falls due during the ramp before
    # the ramp is over, and a request takes 1.3 s: after a ramp of 2 s it sends all
    # that it held back at once. eks-1024-ramp-2s shows it.
    ramped = dict(C=1024, route="ll", stagger=1.0, duration=50.0)
    # The published gate: all users at once, 8 requests for each.
    burst = dict(C=2048, route="rr", stagger=0.0)
    return {
        "eks-1024": ramped,
        "gke-1024": dict(ramped, fe=model.GKE),
        "eks-2048-burst": burst,
        "gke-2048-burst": dict(burst, fe=model.GKE),
        "eks-1024-burst": dict(burst, C=1024),
        "random-1024": dict(ramped, route="random"),
        "p2c-1024": dict(ramped, route="p2c"),
        "kv-1024": dict(ramped, route="kv", prompts=100, kv_credit=302),
        "stall15-rr": dict(burst, stalls_m=[(2, 2.5, 15, 40)]),
        "stall15-ll": dict(burst, route="ll", stalls_m=[(2, 2.5, 15, 40)]),
        "freeze5-mid": dict(burst, freezes_m=[(6.46, 5.0)]),
        "slow-worker-ll": dict(ramped, slow=[(3, 2.0)]),
        "host-slow": dict(ramped, fe=slow_host),
        "missing3": dict(ramped, missing=(5, 6, 7)),
        "client-370": dict(burst, client_rps=370),
        "eks-1024-ramp-2s": dict(ramped, stagger=2.0),
    }


def play(model, settings, seed):
    settings = dict(dict(fe=model.EKS), **settings)
    # What the model draws first, so that another can be played on the same draws.
    draws = random.Random(seed)
    host, step = (math.exp(draws.gauss(0, settings["fe"][which])) for which in ("jit", "sj"))
    said = model.simulate(seed=seed, **settings)
    served = [tokens for tokens in said["tok"] if tokens]
    return {
        "host_factor": f"{host:.9f}",
        "step_factor": f"{step:.9f}",
        "throughput": f"{said['X']:.3f}",
        "ttft_p50_ms": f"{said['ttft50'] * 1e3:.4f}",
        "ttft_p99_ms": f"{said['ttft99'] * 1e3:.4f}",
        "peak_running": max(said["peak"]),
        "share_spread": f"{max(served) / min(served):.5f}",
    }


def record(folder):
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # the model's folder is not ours to write to
    model = importlib.import_module("worker_sim")
    rows = []
    for name, settings in cases(model).items():
        for seed in range(1, SEEDS + 1):
            rows.append({"case": name, "seed": seed, **play(model, settings, seed)})
        print(f"{name}: {SEEDS} seeds", file=sys.stderr, flush=True)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("w", newline="") as out:
        writer = csv.DictWriter(out, ("case", "seed") + JITTERS + FIGURES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary():
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print(f"{'case':16s} {'n':>4s}" + "".join(f" {figure:>12s} {'sd':>9s}" for figure in FIGURES))
    for name in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == name]
        line = f"{name:16s} {len(mine):4d}"
        for figure in FIGURES:
            values = [float(row[figure]) for row in mine]
            line += f" {statistics.mean(values):12.3f} {statistics.stdev(values):9.3f}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", type=pathlib.Path, help="folder of worker_sim.py")
    what.add_argument("--summary", action="store_true", help="print mean and sd of each case")
    arguments = parser.parse_args()
    if arguments.summary:
        summary()
    else:
        record(arguments.model)


if __name__ == "__main__":
    main()
