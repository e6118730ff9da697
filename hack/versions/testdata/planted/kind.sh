kind load docker-image redis:7 --name test
