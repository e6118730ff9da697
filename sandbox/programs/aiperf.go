package programs

import (
	"context"
	"os"
	"path/filepath"
)

// aiperf runs AIPerf itself, from the environment that the image stands for. There is no
// way to the hub from a sandbox, so the tokenizer that AIPerf looks for is put where it
// would have been kept.
func aiperf(ctx context.Context, c *Call) int {
	model, home := flagOf(c.Args, "--model"), c.Getenv("HF_HOME")
	if model == "" { // it is asked whether AIPerf is there, and loads nothing
		return c.run(ctx, nil, c.Args...)
	}
	if home == "" {
		return c.fail("HF_HOME is not set")
	}
	folder, snapshot := cached(home, model)
	err := writeModel(c.Getenv("VIRTUAL_ENV"), snapshot)
	if err == nil {
		err = os.MkdirAll(filepath.Join(folder, "refs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "refs", "main"), []byte(filepath.Base(snapshot)), 0o644)
	}
	if err != nil {
		return c.fail("%v", err)
	}
	return c.run(ctx, []string{"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1"}, c.Args...)
}
