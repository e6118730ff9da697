"""Lets AIPerf's own models read the files that aicr wrote.

Run:  python check.py small.golden.json small.golden.jsonl
"""
import sys

import orjson
from aiperf.common.models.export_models import JsonExportData, JsonMetricResult
from aiperf.common.models.record_models import MetricRecordInfo

profile, records = sys.argv[1:]
text = open(profile, "rb").read()
data = JsonExportData.model_validate_json(text)
extras = sorted(data.model_extra)
blocks = JsonMetricResult.project_summary_dict(orjson.loads(text))
print(f"{profile}: schema {data.schema_version}, {len(blocks)} metric blocks, "
      f"{int(data.request_count.avg)} served, {sum(e.count for e in data.error_summary)} failed, "
      f"model {data.input_config.models.items[0].name!r}, aicr {data.aicr}")
print("undeclared keys that are not metrics:", [k for k in extras if k not in blocks])
# AIPerf's own dump of what it read, in its own format, is the file again.
again = orjson.dumps(data.model_dump(mode="json", exclude_unset=True, exclude_none=True), option=orjson.OPT_INDENT_2)
print("dumped again by AIPerf's models:", "byte-equal" if again == text else "differs")
lines = [MetricRecordInfo.model_validate_json(line) for line in open(records, "rb")]
print(f"{records}: {len(lines)} records, {sum(r.error is not None for r in lines)} with an error, "
      f"{sum(r.metadata.was_cancelled for r in lines)} cancelled")
