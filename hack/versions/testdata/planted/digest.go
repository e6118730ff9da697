package planted

const image = "ghcr.io/org/tool@sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
