package planted

const image = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.0.2"
