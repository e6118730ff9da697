"""Writes numpy.json: what numpy answers for the series of stats_test.go.

Run:  python golden.py > numpy.json     (made with numpy 2.4.6, x86_64, AVX-512)

Series n is 1e6*u*u*u for the first n draws u of splitmix64 seeded with n, which
both languages compute alike. Values are IEEE-754 bits in hexadecimal.
"""
import json
import struct

import numpy as np

MASK = (1 << 64) - 1


def series(n):
    state, out = n, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        u = float((z ^ (z >> 31)) >> 11) * 2.0**-53
        out.append(u * u * u * 1e6)
    return np.array(out)


def bits(v):
    return struct.pack(">d", float(v)).hex()


PERCENTILES = [0, 1, 5, 10, 25, 33.3, 50, 75, 90, 95, 99, 99.9, 100]
SUMS = list(range(1, 301)) + [511, 512, 513, 999, 1000, 4096, 8191, 8193, 99999, 100000]
RANKS = list(range(1, 41)) + [99, 100, 101, 200, 1000, 100000]

moments = []
for n in SUMS:
    x = series(n)
    moments.append({"n": n, "sum": bits(np.sum(x)), "mean": bits(np.mean(x)), "std": bits(np.std(x))})
ranks = []
for n in RANKS:
    x = np.sort(series(n))
    at = np.array(PERCENTILES, dtype=np.float64) / 100.0 * (n - 1)
    lo = at.astype(int)
    hi = np.minimum(lo + 1, n - 1)
    ranks.append(
        {
            "n": n,
            "linear": [bits(v) for v in np.percentile(x, PERCENTILES)],
            "from_below": [bits(v) for v in x[lo] + (at - lo) * (x[hi] - x[lo])],
            "nearest": [bits(v) for v in np.percentile(x, PERCENTILES, method="nearest")],
        }
    )
print(json.dumps({"numpy": np.__version__, "percentiles": PERCENTILES, "moments": moments, "ranks": ranks}, indent=0))
