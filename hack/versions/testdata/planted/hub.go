package planted

var pod = Pod{Image: "golang:1.26-alpine"}
