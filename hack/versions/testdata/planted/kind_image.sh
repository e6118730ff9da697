kind create cluster --image kindest/node:v1.34.0
