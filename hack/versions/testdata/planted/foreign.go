package planted

var images = []string{"quay.io/prometheus/node-exporter:v1.8.0"}
