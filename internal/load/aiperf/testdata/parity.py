"""Feeds one set of request records through AIPerf's own code and keeps the answer.

Run:  python parity.py            (AIPerf 0.13.0 in the environment; see README.md)

Writes, next to this file:
  records.json   the requests, in the terms of aicr's load.Record
  want.json      profile_export_aiperf.json as AIPerf 0.13.0 writes it for them
  want.jsonl     profile_export.jsonl likewise

The path is AIPerf's own from the server's bytes on: SSEMessage.parse,
InferenceResultParser, RecordProcessor's metadata, MetricRecordProcessor,
MetricsAccumulator, ErrorTracker, MetricsJsonExporter, RecordExportJSONLWriter.
Only the transport and the message bus are left out.
"""
import asyncio
import json
import pathlib
import tempfile

import orjson
from aiperf.common.accumulator_protocols import ExportContext
from aiperf.common.enums import CreditPhase
from aiperf.common.models import ErrorDetails, ProfileResults, RequestRecord, SSEMessage
from aiperf.common.models.record_models import RecordContext
from aiperf.common.models.trace_models import AioHttpTraceData
from aiperf.config.config import BenchmarkConfig
from aiperf.config.resolution.plan import BenchmarkRun
from aiperf.exporters.exporter_config import ExporterConfig
from aiperf.exporters.metrics_json_exporter import MetricsJsonExporter
from aiperf.metrics.accumulator import MetricsAccumulator
from aiperf.post_processors.metric_record_processor import MetricRecordProcessor
from aiperf.post_processors.record_export_jsonl_writer import RecordExportJSONLWriter
from aiperf.records.error_tracker import ErrorTracker
from aiperf.records.inference_result_parser import InferenceResultParser
from aiperf.records.record_processor_service import RecordProcessor

HERE = pathlib.Path(__file__).parent
EPOCH = 1_794_711_614_000_000_123  # wall-clock nanoseconds of stamp 0
REQUESTED = 64  # max_tokens of every request
SLOS = {"time_to_first_token": 60.0, "inter_token_latency": 8.0, "output_token_throughput_per_user": 100.0}
MASK = (1 << 64) - 1


class Draw:
    """splitmix64, so that the set is the same on every machine."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n


def make_records():
    draw, records = Draw(7), []
    kinds = ["plain"] * 8 + ["single", "reasoning", "coalesced", "cached"]
    failures = [
        ("http-status", 500, "the engine is gone"),
        ("http-status", 429, "slow down"),
        ("timeout", 0, "no whole answer within 2s"),
        ("interrupted", 0, "stopped"),
    ]
    intended = 1_000_000
    for i in range(24 + 360):
        warmup = i < 24
        if i == 24:
            intended += 2_000_000_000
        intended += 1 + draw.below(9_000_000)
        sent = intended + 1_000 + draw.below(3_000_000)
        r = {
            "seq": i if warmup else i - 24,
            "phase": "warmup" if warmup else "steady",
            "intended": intended,
            "sent": sent,
            "bytes_out": 700 + draw.below(90),
            "reused": i % 5 != 0,
            "resolve": 0 if i % 5 else draw.below(400_000),
            "connect": 0 if i % 5 else 1 + draw.below(900_000),
            "class": "ok",
            "status": 200,
            "detail": "",
            "prompt": 100 + draw.below(60),
            "cached": -1,
            "reasoning": 0,
            "answer": 0,
            "stamps": [],
        }
        if not warmup and draw.below(12) == 0:
            r["class"], r["status"], r["detail"] = failures[draw.below(len(failures))]
            r["end"] = sent + 5_000_000 + draw.below(2_000_000_000)
            r["completion"], r["bytes_in"] = 0, 200
            records.append(r)
            continue
        kind = kinds[draw.below(len(kinds))]
        tokens = 1 if kind == "single" else 2 + draw.below(90)
        chunks = tokens if kind != "coalesced" else max(2, tokens // 3)
        at = sent + 12_000_000 + draw.below(90_000_000)
        for k in range(chunks):
            if k and draw.below(10):  # one gap in ten is zero: two events in one read
                at += 1 + draw.below(14_000_000)
            r["stamps"].append(at)
        r["completion"] = tokens
        if kind == "reasoning":
            r["answer"] = chunks // 2
            r["reasoning"] = max(1, chunks // 2)
        if kind == "cached":
            r["cached"] = draw.below(r["prompt"])
        r["bytes_in"] = 240 * chunks + draw.below(50)
        # Often the usage event comes in the same read as the last token.
        r["end"] = at + 1 + (draw.below(300_000) if draw.below(2) else 0)
        records.append(r)
    return records


def body(r):
    """The events of an answer, as a server would write them."""
    for k, at in enumerate(r["stamps"]):
        field = "reasoning_content" if k < r["answer"] else "content"
        yield at, {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {field: f"w{k} "}}]}
    usage = {
        "prompt_tokens": r["prompt"],
        "completion_tokens": r["completion"],
        "total_tokens": r["prompt"] + r["completion"],
    }
    if r["reasoning"]:
        usage["completion_tokens_details"] = {"reasoning_tokens": r["reasoning"]}
    if r["cached"] >= 0:
        usage["prompt_tokens_details"] = {"cached_tokens": r["cached"]}
    yield r["end"], {"object": "chat.completion.chunk", "choices": [], "usage": usage}


REASONS = {500: "Internal Server Error", 429: "Too Many Requests"}


def request_record(r):
    phase = CreditPhase.WARMUP if r["phase"] == "warmup" else CreditPhase.PROFILING
    session = f"session_{r['seq']:06d}"
    trace = AioHttpTraceData(
        request_send_start_perf_ns=r["sent"],
        request_send_end_perf_ns=r["sent"],
        request_bytes_total=r["bytes_out"],
        response_receive_start_perf_ns=r["stamps"][0] if r["stamps"] else None,
        response_receive_end_perf_ns=r["end"],
        response_bytes_total=r["bytes_in"],
        response_chunks_count=2,
    )
    if r["reused"]:
        trace.connection_reused_perf_ns = r["sent"]
    else:
        trace.dns_lookup_start_perf_ns = r["sent"]
        trace.dns_lookup_end_perf_ns = r["sent"] + r["resolve"]
        trace.tcp_connect_start_perf_ns = r["sent"]
        trace.tcp_connect_end_perf_ns = r["sent"] + r["connect"]
    record = RequestRecord(
        request_info=RecordContext(
            credit_num=r["seq"],
            credit_phase=phase,
            phase_index=0 if r["phase"] == "warmup" else 1,
            profiling_index=None if r["phase"] == "warmup" else 0,
            phase_name=phase.value,
            phase_kind=phase.value,
            conversation_id=session,
            turn_index=0,
            x_request_id=session,
            x_correlation_id=session,
            root_correlation_id=session,
            credit_issued_ns=EPOCH + r["intended"],
            max_tokens=REQUESTED,
        ),
        model_name="m",
        timestamp_ns=EPOCH + r["sent"],
        start_perf_ns=r["sent"],
        end_perf_ns=r["end"],
        recv_start_perf_ns=r["stamps"][0] - 1000 if r["stamps"] else None,
        status=r["status"],
        trace_data=trace,
    )
    if r["class"] == "ok":
        record.responses = [SSEMessage.parse("data: " + json.dumps(e), at) for at, e in body(r)]
    elif r["class"] == "http-status":
        record.error = ErrorDetails(code=r["status"], type=REASONS[r["status"]], message=r["detail"])
    elif r["class"] == "interrupted":
        record.cancellation_perf_ns = r["end"]
        record.error = ErrorDetails(code=499, type="RequestCancellationError", message=r["detail"])
    else:
        record.error = ErrorDetails(type=r["class"], message=r["detail"])
    return record


async def main():
    records = make_records()
    phases = [{"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": True,
               "requests": 24, "concurrency": 16},
              {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 360, "concurrency": 16}]
    cfg = BenchmarkConfig.model_validate({
        "models": {"items": [{"name": "m"}]},
        "endpoint": {"urls": ["http://127.0.0.1:8000"], "type": "chat", "streaming": True,
                     "use_server_token_count": True},
        "datasets": [{"name": "main", "type": "synthetic", "entries": 100, "random_seed": 7,
                      "prompts": {"isl": {"mean": 128.0, "stddev": 0.0}, "osl": {"mean": 64.0, "stddev": 0.0}}}],
        "phases": phases,
        "artifacts": {"dir": tempfile.mkdtemp(), "records": ["jsonl"]},
        "slos": SLOS,
    })
    run = BenchmarkRun(benchmark_id="parity", cfg=cfg, artifact_dir=cfg.artifacts.dir, random_seed=7,
                       cli_command="aiperf profile")
    parser = InferenceResultParser(run=run)
    processor = MetricRecordProcessor(run=run)
    accumulator = MetricsAccumulator(run=run)
    tracker = ErrorTracker()
    writer = RecordExportJSONLWriter(service_id="records_manager", run=run)
    await writer.initialize()
    await writer.start()

    class Service:  # what RecordProcessor's metadata builder reads of its service
        service_id = "record_processor_aicr"

    for r in records:
        request = request_record(r)
        parsed = await parser.parse_request_record(request)
        last = parsed.responses[-1].perf_ns if parsed.responses else None
        metadata = RecordProcessor._create_metric_record_metadata(Service(), request, "worker_aicr", last)
        data = await processor.process_record(parsed, metadata)
        await accumulator.process_record(data)
        await writer.process_record(data)
        if data.error is not None:
            tracker.increment_error_count_for_phase(metadata.benchmark_phase, data.error)
    await writer.finalize()

    results, windows = {}, {}
    for name, phase in (("warmup", CreditPhase.WARMUP), ("steady", CreditPhase.PROFILING)):
        of = [r for r in records if r["phase"] == name]
        start = EPOCH + of[0]["intended"]
        end = EPOCH + max(r["end"] for r in of)
        windows[name] = (start, end)
        summary = await accumulator.export_results(ExportContext(start_ns=start, end_ns=end, phase=phase))
        results[name] = list(summary.results.values())
    start, end = windows["steady"]
    profile = ProfileResults(
        records=results["steady"], warmup_records=results["warmup"], completed=len(records),
        start_ns=start, end_ns=end,
        error_summary=tracker.get_error_summary_for_phase(CreditPhase.PROFILING),
    )
    exporter = MetricsJsonExporter(ExporterConfig(results=profile, cfg=cfg, telemetry_results=None, run=run))
    want = json.loads(exporter._generate_content())
    want["input_config"]["artifacts"]["dir"] = "out"
    # In a real run the summaries reach the exporter over the message bus, which
    # turns infinities into None, and the exporter leaves None out. Here there is
    # no bus, so the infinities of adj_* arrive as nulls: drop them likewise.
    want = {k: {s: v for s, v in b.items() if v is not None} if k.startswith("adj_") else b
            for k, b in want.items()}
    (HERE / "want.json").write_bytes(orjson.dumps(want, option=orjson.OPT_INDENT_2))
    lines = pathlib.Path(cfg.artifacts.profile_export_jsonl_file).read_bytes().splitlines(keepends=True)
    few = [line for i, line in enumerate(lines) if i < 3 or 24 <= i < 48 or (b'"error":' in line and i < 200)]
    (HERE / "want.jsonl").write_bytes(b"".join(few))
    (HERE / "records.json").write_text(json.dumps({
        "epoch": EPOCH, "requested": REQUESTED, "slos": SLOS,
        "records": records,
    }, separators=(",", ":")).replace('{"seq"', '\n{"seq"') + "\n")


asyncio.run(main())
