"""Lets AIPerf's own models read what aicr exported.

usage: readback.py profile_export_aiperf.json profile_export.jsonl

Prints one JSON object of what they found, for the test to compare. Anything
that the models refuse is an exception.
"""

import json
import pathlib
import sys

import orjson
from aiperf.common.models.export_models import JsonExportData, JsonMetricResult
from aiperf.common.models.record_models import MetricRecordInfo

profile, records = map(pathlib.Path, sys.argv[1:])
text = profile.read_bytes()
data = JsonExportData.model_validate_json(text)
blocks = JsonMetricResult.project_summary_dict(orjson.loads(text))
again = data.model_dump(mode="json", exclude_unset=True, exclude_none=True)
lines = [MetricRecordInfo.model_validate_json(line) for line in records.read_bytes().splitlines()]
measured = [line for line in lines if line.metadata.benchmark_phase == "profiling"]
json.dump({
    "schema_version": data.schema_version,
    "served": int(data.request_count.avg),
    "blocks": len(blocks),
    "undeclared": sorted(key for key in data.model_extra if key not in blocks),
    "same_when_dumped": orjson.dumps(again, option=orjson.OPT_INDENT_2) == text,
    "records": len(measured),
    "failed": sum(line.error is not None for line in measured),
    "output_tokens": int(sum(line.metrics["output_sequence_length"].value for line in measured)),
}, sys.stdout)
