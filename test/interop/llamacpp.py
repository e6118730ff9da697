"""llama.cpp's own server with a tiny model, whose steps take device time.

usage: llamacpp.py MODEL PORT SLOTS STEP_MS

A step of the model takes STEP_MS more, spent asleep as if a GPU did it: on a machine that
others use, figures repeat then, and a slow engine is slow by its device. Everything else is
the package's server, unmodified.
"""

import ctypes
import struct
import sys
import time

import xllamacpp

COMPUTE = b"ggml_backend_sched_graph_compute_async"


def got(path, symbol):
    """Where the library's table of foreign functions has that one, from its beginning."""
    with open(path, "rb") as file:
        def at(offset, size):
            file.seek(offset)
            return file.read(size)
        header = struct.unpack("<16sHHIQQQIHHHHHH", at(0, 64))
        sections = [struct.unpack("<IIQQQQIIQQ", at(header[6] + i * header[11], header[11])) for i in range(header[12])]
        for kind, link, offset, size in ((s[1], s[6], s[4], s[5]) for s in sections):
            if kind != 4:  # SHT_RELA
                continue
            table, names = sections[link], sections[sections[link][6]]
            symbols, strings = at(table[4], table[5]), at(names[4], names[5])
            for where, info, _ in struct.iter_unpack("<QQq", at(offset, size)):
                name = struct.unpack_from("<I", symbols, (info >> 32) * 24)[0]
                if strings.startswith(symbol + b"\0", name):
                    yield where


def pace(step):
    """Makes each computation of the model's graph take that many seconds at least."""
    path = xllamacpp.xllamacpp.__file__
    library = ctypes.CDLL(path)
    with open("/proc/self/maps") as maps:
        base = min(int(line.partition("-")[0], 16) for line in maps if line.rstrip().endswith(path))
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    compute = signature((COMPUTE.decode(), library))

    def paced(sched, graph):
        begin = time.monotonic()
        status = compute(sched, graph)
        time.sleep(max(0.0, step - (time.monotonic() - begin)))
        return status

    paced = signature(paced)
    slots = list(got(path, COMPUTE))
    if not slots:
        sys.exit("llama.cpp does not call " + COMPUTE.decode() + " through its table")
    page = 4096
    for slot in slots:
        where = base + slot
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(where & -page), ctypes.c_size_t(page), 3) != 0:
            sys.exit("llama.cpp's table cannot be written")
        ctypes.c_void_p.from_address(where).value = ctypes.cast(paced, ctypes.c_void_p).value
    return paced  # has to be kept


def main():
    model, port, slots, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]) / 1e3
    p = xllamacpp.CommonParams()
    p.model.path, p.model_alias = model, {"tiny"}
    p.hostnames, p.port = ["127.0.0.1"], port
    p.n_parallel, p.n_ctx = slots, slots * 1024
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.endpoint_metrics = p.endpoint_slots = True
    p.verbosity = 1
    server = xllamacpp.Server(p)
    kept = pace(step)  # after the server's start, which holds the interpreter
    print("listening", server.listening_address, flush=True)
    while True:
        time.sleep(3600)


main()
