"""A plugin of vLLM: each step of the model takes DEVICE_MS milliseconds at least, spent
asleep as if a GPU did it. Everything else is vLLM, unmodified."""

import os
import time


def register():
    step = float(os.environ.get("DEVICE_MS") or 0) / 1e3
    if not step:
        return
    from vllm.v1.worker.cpu_worker import CPUWorker

    if hasattr(CPUWorker, "unpaced"):
        return
    CPUWorker.unpaced = CPUWorker.execute_model

    def execute_model(self, scheduled, *args, **named):
        begin = time.monotonic()
        done = self.unpaced(scheduled, *args, **named)
        if getattr(scheduled, "total_num_scheduled_tokens", 1):
            time.sleep(max(0.0, step - (time.monotonic() - begin)))
        return done

    CPUWorker.execute_model = execute_model
