package planted

func ExampleOld() { run("aiperf==0.7.0") }
