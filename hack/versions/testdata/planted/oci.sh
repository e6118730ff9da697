helm pull oci://ghcr.io/org/charts/tool:3.1.0
