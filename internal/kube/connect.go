package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"aicr/internal/redact"
)

// Access says which cluster is meant. As for kubectl, Kubeconfig goes before $KUBECONFIG,
// that before ~/.kube/config, and that before the cluster that the program runs in.
type Access struct {
	Kubeconfig string // a file, or ""
	Context    string // of the file; "" is its current one
	LookupEnv  func(string) (string, bool)
	Program    string // how the program calls itself: aicr/v1.2.3
}

// InCluster is the context's name where the program runs in the cluster itself.
const InCluster = "in-cluster"

// Cluster is one that can be talked to. Nothing has been said to it yet.
type Cluster struct {
	Context string
	Server  string // its address, without anything secret

	// How calls are made: set them before the first.
	Limit    time.Duration     // of each try; 0: DefaultRequestTimeout
	Patience time.Duration     // how long a server that does not answer is tried again; 0: DefaultPatience
	First    time.Duration     // the same of one that has never answered: it may not be there at all; 0: as Patience
	Down     time.Duration     // of one that has never answered, where nothing listens at its address or no way leads there; 0: as First
	Trouble  func(text string) // hears once that the server is away, and once that it is back; nil: nobody does

	server  rest.Interface
	config  *rest.Config
	plugin  string   // the program that makes the credentials; "": none does
	secrets []string // never to be seen in an error
	health  health
}

// NoConfigError says that nothing tells which cluster is meant.
type NoConfigError struct{ Looked []string }

func (e *NoConfigError) Error() string {
	if len(e.Looked) == 0 {
		return "no kubeconfig, and this is not a cluster's pod"
	}
	if len(e.Looked) == 1 {
		return "no kubeconfig: " + e.Looked[0] + " is not there"
	}
	return "no kubeconfig: " + strings.Join(e.Looked, ", ") + " are not there"
}

// ContextError says that a kubeconfig has no context of that name.
type ContextError struct {
	Name  string // "" where the file names no current one
	Known []string
}

func (e *ContextError) Error() string {
	if e.Name == "" {
		return "the kubeconfig names no current context"
	}
	return fmt.Sprintf("the kubeconfig has no context %q", e.Name)
}

// Connect finds the cluster, and says nothing to it.
func Connect(a Access) (*Cluster, error) {
	config, name, err := a.find()
	if err != nil {
		return nil, err
	}
	config.UserAgent = a.Program
	return connectTo(config, name)
}

func connectTo(config *rest.Config, name string) (*Cluster, error) {
	config.WarningHandler = rest.NoWarnings{} // deprecations are facts of the snapshot, not noise on standard error
	config.QPS, config.Burst = 50, 100        // a snapshot is some fifteen requests and one for each 500 nodes
	config.Timeout = 0                        // every request has its own
	c := &Cluster{Context: name, config: config, Server: withoutUser(config.Host), secrets: secretsOf(config)}
	c.watchPlugin(config)
	// The client for all of Kubernetes would make the program twice as large, for eight
	// lists.
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	server, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: context %s: %w", name, c.plain(err))
	}
	c.server = server
	return c, nil
}

// Files are the kubeconfigs that are read, each of which may not be there.
func (a Access) Files() []string {
	env := func(name string) string { v, _ := a.LookupEnv(name); return v }
	switch {
	case a.Kubeconfig != "": // as one that may be missing like the others, so that all are told alike
		return []string{a.Kubeconfig}
	case env("KUBECONFIG") != "":
		return filepath.SplitList(env("KUBECONFIG"))
	case env("HOME") != "":
		return []string{filepath.Join(env("HOME"), ".kube", "config")}
	}
	return nil
}

func (a Access) find() (*rest.Config, string, error) {
	env := func(name string) string { v, _ := a.LookupEnv(name); return v }
	rules := &clientcmd.ClientConfigLoadingRules{WarnIfAllMissing: true, Precedence: a.Files()}
	var missing clientcmd.MissingConfigError
	rules.Warner = func(err error) { errors.As(err, &missing) }
	named := a.Kubeconfig != "" || env("KUBECONFIG") != ""
	raw, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if missing.Missing == nil && len(rules.Precedence) > 0 {
		return a.choose(raw)
	}
	if !named && env("KUBERNETES_SERVICE_HOST") != "" {
		if a.Context != "" {
			return nil, "", &ContextError{Name: a.Context, Known: []string{InCluster}}
		}
		config, err := rest.InClusterConfig()
		return config, InCluster, err
	}
	return nil, "", &NoConfigError{Looked: missing.Missing}
}

// choose makes the configuration of one context.
func (a Access) choose(raw *api.Config) (*rest.Config, string, error) {
	name := a.Context
	if name == "" {
		name = raw.CurrentContext
	}
	if _, ok := raw.Contexts[name]; !ok {
		return nil, "", &ContextError{Name: name, Known: slices.Sorted(maps.Keys(raw.Contexts))}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: context %s: %w", name, err)
	}
	return config, name, nil
}

// Secrets are what gives access to the cluster: nothing that is said has one of them.
func (c *Cluster) Secrets() []string { return c.secrets }

func secretsOf(c *rest.Config) []string {
	return append([]string{c.BearerToken, c.Password}, redact.InURL(c.Host)...)
}

func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// inQuery is the query of an address, which client-go repeats: it is of no interest, and may
// have a secret in it.
var inQuery = regexp.MustCompile(`(://[^\s"'?]+)\?[^\s"']+`)

// plain is an error that can be shown: nothing of it gives access.
func (c *Cluster) plain(err error) error {
	if err == nil {
		return nil
	}
	return &shownError{c.shown(err.Error()), err}
}

// shown is what a server said, or client-go of it, without secrets: masked, cleaned, and then
// cut.
func (c *Cluster) shown(text string) string {
	text = inQuery.ReplaceAllString(redact.NewMask(c.secrets...).Foreign(text), "$1")
	return upTo(strings.Join(strings.Fields(redact.Clean(text)), " "), longest)
}

// longest is how much of an error is shown: the text of a policy that refuses an object comes
// last in it, and is read to its end.
const longest = 2000

// upTo cuts a text at its end, at a word.
func upTo(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	head := string(r[:most])
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		head = head[:at]
	}
	return head + "…"
}

type shownError struct {
	text  string
	cause error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.cause }

// How long is waited, where nothing is said.
const (
	DefaultTimeout        = time.Minute
	DefaultRequestTimeout = 15 * time.Second
	DefaultPatience       = 3 * time.Minute
	DefaultDown           = 5 * time.Second
)
