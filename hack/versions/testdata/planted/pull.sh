docker pull postgres:16
