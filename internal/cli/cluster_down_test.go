package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"aicr/internal/kube"
)

// A server at whose address nothing listens is given up within seconds, by every command that
// talks to a cluster. Only who sets --timeout waits for as long.
func TestAServerThatIsDownIsGivenUpSoonUnlessSomebodySetsTheTimeout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const config = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: x}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[Source]time.Duration{FromDefault: kube.DefaultDown, FromFlag: 9 * time.Second, FromEnv: 9 * time.Second} {
		var o clusterFlags
		o.define(pflag.NewFlagSet("x", pflag.ContinueOnError))
		o.kubeconfig = file
		if source != FromDefault {
			o.timeout = seconds(9 * time.Second)
		}
		a := &app{env: Env{Stderr: &bytes.Buffer{}, LookupEnv: func(string) (string, bool) { return "", false }}}
		a.settings.all = []Setting{{Name: "timeout", Source: source}}
		c, err := a.connect(o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Down != want {
			t.Errorf("timeout by %s: given up after %s, want %s", source, c.Down, want)
		}
	}
}
