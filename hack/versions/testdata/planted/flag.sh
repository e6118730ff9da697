helm upgrade --install x "$chart" --version="v3.1"
