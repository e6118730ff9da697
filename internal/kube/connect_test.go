package kube

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"aicr/internal/kube/kubetest"
)

const twoContexts = `apiVersion: v1
kind: Config
current-context: CURRENT
clusters:
- {name: a, cluster: {server: "https://user:pass-word-1@a.example:6443"}}
- {name: b, cluster: {server: "https://b.example:6443"}}
users:
- {name: u, user: {token: hidden-token-1}}
contexts:
- {name: prod, context: {cluster: a, user: u}}
- {name: staging, context: {cluster: b, user: u}}
`

// As for kubectl: the flag, then the variable, then the home, then the pod.
func TestWhichClusterIsMeant(t *testing.T) {
	dir := t.TempDir()
	put := func(name, current string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(twoContexts, "CURRENT", current)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flag, variable := put("flag", "prod"), put("variable", "staging")
	put("home/.kube/config", "prod")
	home := filepath.Join(dir, "home")
	missing := filepath.Join(dir, "missing")
	none := put("none", `""`)
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("clusters: [{name: a, cluster: {server: hidden-token-1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		access   Access
		env      map[string]string
		want     string // context and server, or the error
		contexts []string
	}{
		{"the flag", Access{Kubeconfig: flag}, map[string]string{"KUBECONFIG": variable, "HOME": home}, "prod https://a.example:6443", nil},
		{"the variable", Access{}, map[string]string{"KUBECONFIG": variable, "HOME": home}, "staging https://b.example:6443", nil},
		{"several in the variable", Access{}, map[string]string{"KUBECONFIG": missing + string(filepath.ListSeparator) + variable}, "staging https://b.example:6443", nil},
		{"the home", Access{}, map[string]string{"HOME": home}, "prod https://a.example:6443", nil},
		{"another context", Access{Context: "staging"}, map[string]string{"HOME": home}, "staging https://b.example:6443", nil},
		{"nothing", Access{}, nil, "no kubeconfig, and this is not a cluster's pod", nil},
		{"an empty home", Access{}, map[string]string{"HOME": dir}, "no kubeconfig: " + filepath.Join(dir, ".kube", "config") + " is not there", nil},
		{"a flag that is missing", Access{Kubeconfig: missing}, map[string]string{"HOME": home}, "no kubeconfig: " + missing + " is not there", nil},
		{"a variable that is missing", Access{}, map[string]string{"KUBECONFIG": missing, "HOME": home, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "no kubeconfig: " + missing + " is not there", nil},
		{"a context that is not there", Access{Kubeconfig: flag, Context: "prd"}, nil, `the kubeconfig has no context "prd"`, []string{"prod", "staging"}},
		{"no current context", Access{Kubeconfig: none}, nil, "the kubeconfig names no current context", []string{"prod", "staging"}},
		{"a file that is none", Access{Kubeconfig: broken}, nil, "reading the kubeconfig: ", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.access.LookupEnv = func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
			c, err := Connect(tt.access)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = c.Context + " " + c.Server
			}
			if got != tt.want && (err == nil || !strings.HasSuffix(tt.want, ": ") || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			for _, secret := range []string{"hidden-token-1", "pass-word-1"} {
				if strings.Contains(got, secret) {
					t.Errorf("it tells a secret: %s", got)
				}
			}
			var wrong *ContextError
			if errors.As(err, &wrong) != (tt.contexts != nil) || wrong != nil && strings.Join(wrong.Known, " ") != strings.Join(tt.contexts, " ") {
				t.Errorf("contexts: %v", wrong)
			}
		})
	}
}

func TestNothingSecretIsShown(t *testing.T) {
	c := &Cluster{secrets: []string{"s3cret-token"}}
	for text, want := range map[string]string{
		`Get "https://me:pw@host:6443/version?token=abc": refused`: `Get "https://***@host:6443/version": refused`,
		"s3cret-token is not a token":                              "*** is not a token",
		"czNjcmV0LXRva2Vu, s3cret%2Dtoken":                         "***, ***",
		"why? because\x1b[2J\u202e":                                "why? because□[2J□",
		"::error::x":                                               ": :error::x",
		"sent Authorization: Bearer eyJhbGciOi.J9-x_y":             "sent Authorization: Bearer ***",
		"two\nlines": "two lines",
		"nodes is forbidden: User \"a\" cannot list resource \"nodes\"": "nodes is forbidden: User \"a\" cannot list resource \"nodes\"",
		strings.Repeat("x", longest+100):                                strings.Repeat("x", longest) + "…",
		strings.Repeat("one policy more ", 150):                         strings.Repeat("one policy more ", 124) + "one policy more…",
		strings.Repeat("a policy ", 100):                                strings.TrimSpace(strings.Repeat("a policy ", 100)),
	} {
		if got := c.shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// A snapshot that was kept is read back; what is not aicr's is not written over.
func TestSnapshotsAreKeptInConfigMaps(t *testing.T) {
	server := kubetest.Start(t, "")
	c := connect(t, server)
	k := Kept{Format: "yaml", Data: []byte("kind: Snapshot\n"), Now: then, Version: "v1.2.3+dirty"}
	for range 2 { // the second writes over the first
		if err := WriteConfigMap(t.Context(), c, "aicr", "passed", k); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ReadConfigMap(t.Context(), c, "aicr", "passed"); err != nil || string(got) != string(k.Data) {
		t.Errorf("read %q, %v", got, err)
	}
	object := server.ConfigMap("aicr", "passed")
	labels := object["metadata"].(kubetest.Object)["labels"].(kubetest.Object)
	if labels["app.kubernetes.io/version"] != "v1.2.3-dirty" || labels["app.kubernetes.io/name"] != "aicr" {
		t.Errorf("labels %v", labels)
	}
	if data := object["data"].(kubetest.Object); data["format"] != "yaml" || data["timestamp"] != "2026-06-04T12:00:00Z" {
		t.Errorf("data %v", data)
	}

	server.Keep("aicr", "theirs", kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"name": "theirs", "namespace": "aicr"}, "data": kubetest.Object{"a": "b"}})
	var foreign *ForeignError
	if err := WriteConfigMap(t.Context(), c, "aicr", "theirs", k); !errors.As(err, &foreign) {
		t.Errorf("it wrote over somebody's ConfigMap: %v", err)
	}
	if _, err := ReadConfigMap(t.Context(), c, "aicr", "theirs"); err == nil {
		t.Error("a ConfigMap without a snapshot was read")
	}
	server.Keep("aicr", "json", kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"name": "json"}, "data": kubetest.Object{"snapshot.json": "{}"}})
	if got, err := ReadConfigMap(t.Context(), c, "aicr", "json"); err != nil || string(got) != "{}" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := ReadConfigMap(t.Context(), c, "aicr", "none"); err == nil {
		t.Error("one that is not there was read")
	}

	before := len(server.Requests())
	k.Data = make([]byte, MaxConfigMap)
	var large *TooLargeError
	if err := WriteConfigMap(t.Context(), c, "aicr", "passed", k); !errors.As(err, &large) || len(server.Requests()) != before {
		t.Errorf("1 MiB and more: %v", err)
	}
}

// A plugin that makes credentials knows of no context: where it hangs, the write ends
// with its time all the same.
func TestAWriteEndsWithItsTime(t *testing.T) {
	c := connect(t, kubetest.Start(t, ""))
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	defer close(released)
	client := c.server.(*rest.RESTClient).Client
	inner := client.Transport
	client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			cancel() // its time is over
			<-released
		}
		return inner.RoundTrip(r)
	})
	ended := make(chan error, 1)
	go func() {
		ended <- WriteConfigMap(ctx, c, "aicr", "passed", Kept{Format: "yaml", Data: []byte("kind: Snapshot\n"), Now: then})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits for the plugin")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
