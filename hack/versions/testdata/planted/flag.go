package planted

var args = []string{"install", "x", "--version", "1.4.1"}
