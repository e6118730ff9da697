docker pull ghcr.io/nvidia/aicr-validators/performance:latest
