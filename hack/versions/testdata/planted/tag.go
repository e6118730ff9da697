package planted

var runtimeTag = "0.9.0"
