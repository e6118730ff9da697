package kube

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Who does not answer is named: the server, a webhook that it asks, or the program that
// makes the credentials.
func TestWhoDoesNotAnswerIsNamed(t *testing.T) {
	says := func(code int, message string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return refusal(code, "InternalError", message), nil }
	}
	for name, c := range map[string]struct {
		failure      func(*http.Request) (*http.Response, error)
		trouble, end string
		webhook      string
	}{
		"the server": {func(*http.Request) (*http.Response, error) {
			return nil, dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		},
			"the API server does not answer as it should; it is tried again for up to ", "no answer for ", ""},
		"etcd": {says(500, "etcdserver: leader changed"), "the API server does not answer as it should", "no answer for ", ""},
		"a webhook": {says(500, `Internal error occurred: failed calling webhook "vdgd.nvidia.com": failed to call webhook: Post "https://x.y.svc:443/validate": dial tcp 10.0.0.1:443: connect: connection refused`),
			"the API server answers, but the webhook that it asks does not (vdgd.nvidia.com)", "no answer of a webhook (vdgd.nvidia.com) for ", "vdgd.nvidia.com"},
		"a conversion": {says(500, `conversion webhook for nvidia.com/v1alpha1, Kind=DynamoGraphDeployment failed: Post "https://dynamo-operator-webhook-service.dynamo-system.svc:443/convert?timeout=30s": no endpoints available for service`),
			"the webhook that it asks does not (for the conversion of nvidia.com/v1alpha1, Kind=DynamoGraphDeployment)", "no answer of a webhook (for the conversion", "for the conversion of nvidia.com/v1alpha1, Kind=DynamoGraphDeployment"},
		"too many": {func(*http.Request) (*http.Response, error) { return answers(429, "", "Retry-After", "1"), nil },
			"the API server has too many requests (429)", "no answer for ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := asking(t, c.failure)
				var told []string
				cluster.Trouble = func(text string) { told = append(told, text) }
				_, err := cluster.Read(t.Context(), configMaps, "a", "b")
				if !IsAway(err) || !strings.Contains(err.Error(), c.end) || WebhookOf(err) != c.webhook {
					t.Errorf("%v, webhook %q", err, WebhookOf(err))
				}
				if len(told) != 1 || !strings.Contains(told[0], c.trouble) {
					t.Errorf("told %q, want %q", told, c.trouble)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // of who does not wait for it
		tries := 0
		cluster := asking(t, func(*http.Request) (*http.Response, error) {
			tries++
			return refusal(500, "InternalError", `failed calling webhook "x"`), nil
		})
		_, err := cluster.Read(WithoutWebhooks(t.Context()), configMaps, "a", "b")
		if tries != 1 || WebhookOf(err) != "x" || IsAway(err) || !cluster.Reached() {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
	if got := WebhookOf(errors.New(`failed calling webhook "x"`)); got != "" {
		t.Errorf("of another's words: %q", got)
	}
}

// What refuses connections from the beginning is no server; one that has answered is
// waited for, and one that does not answer at all may be slow.
func TestAServerThatIsDownIsKnownInSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		before  bool // it has answered before
		soon    bool
	}{
		"refused":         {dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED)), false, true},
		"no route":        {dialing(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), false, true},
		"no network":      {dialing(os.NewSyscallError("connect", syscall.ENETUNREACH)), false, true},
		"reset":           {&os.SyscallError{Syscall: "read", Err: syscall.ECONNRESET}, false, false},
		"under way":       {dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED)), true, false},
		"a proxy that is": {dialing(&os.SyscallError{Syscall: "connect", Err: syscall.ETIMEDOUT}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := c.before
				cluster := asking(t, func(*http.Request) (*http.Response, error) {
					if there {
						return answers(200, Object{}), nil
					}
					return nil, c.failure
				})
				cluster.First, cluster.Down = DefaultTimeout, DefaultDown
				if c.before {
					if _, err := cluster.Read(t.Context(), configMaps, "a", "b"); err != nil {
						t.Fatal(err)
					}
					there = false
				}
				begin := time.Now()
				_, err := cluster.Read(t.Context(), configMaps, "a", "b")
				if took := time.Since(begin); err == nil || (took <= DefaultDown) != c.soon && name != "reset" {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// A program that makes credentials and hangs is not the server's silence.
func TestACredentialPluginThatHangsIsNamed(t *testing.T) {
	c, err := connectTo(&rest.Config{Host: "https://api.example", ExecProvider: &api.ExecConfig{
		Command: "sleep", Args: []string{"5"}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	c.Limit = 50 * time.Millisecond
	_, err = c.Read(t.Context(), configMaps, "a", "b")
	if plugin, ok := errors.AsType[*PluginError](err); !ok || plugin.Command != "sleep" || IsAway(err) || !strings.Contains(err.Error(), "the credential plugin sleep of the kubeconfig has given no credentials") {
		t.Errorf("%v", err)
	}
	_, err = Collect(t.Context(), c, Options{Timeout: 100 * time.Millisecond, RequestTimeout: 50 * time.Millisecond, Now: time.Now()})
	if err == nil || !strings.Contains(err.Error(), "the credential plugin sleep") {
		t.Errorf("a snapshot: %v", err)
	}
}
