package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"aicr/internal/kube"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// clusterFlags say which cluster is meant. Their zero value is the one that kubectl
// would talk to.
type clusterFlags struct {
	kubeconfig string
	context    string
	timeout    seconds
}

func (o *clusterFlags) define(f *pflag.FlagSet) {
	o.timeout = seconds(kube.DefaultTimeout)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the cluster, instead of KUBECONFIG or ~/.kube/config")
	f.StringVar(&o.context, "context", "", "`NAME` of the context in it, instead of its current one")
	f.Var(&o.timeout, "timeout", "give up on what has not answered after this `TIME`")
}

func (o *clusterFlags) check() error {
	if o.timeout < 0 || o.timeout > 0 && time.Duration(o.timeout) < time.Millisecond {
		return misuse("60s is the default", "--timeout: %s is no time to wait", time.Duration(o.timeout))
	}
	return nil
}

// connect finds the cluster, and says on standard error which it is.
func (a *app) connect(o clusterFlags) (*kube.Cluster, error) {
	access := kube.Access{Kubeconfig: o.kubeconfig, Context: o.context, LookupEnv: a.env.LookupEnv, Program: "aicr/" + a.env.Build.Version}
	for _, path := range access.Files() {
		if err := kubeconfigEnds(path); err != nil {
			return nil, misuse("name another file with --kubeconfig, or in KUBECONFIG", "reading the kubeconfig: %w", err)
		}
	}
	c, err := kube.Connect(access)
	if missing, ok := errors.AsType[*kube.NoConfigError](err); ok {
		return nil, misuse("name one with --kubeconfig FILE or in KUBECONFIG", "%w", missing)
	}
	if wrong, ok := errors.AsType[*kube.ContextError](err); ok {
		hint := "choose one with --context: " + strings.Join(wrong.Known, ", ")
		if near := nearest(wrong.Name, wrong.Known); near != "" {
			hint = fmt.Sprintf("did you mean --context %s?", near)
		} else if len(wrong.Known) == 0 {
			hint = "it has none; name another file with --kubeconfig"
		}
		return nil, misuse(hint, "%w", wrong)
	}
	if err != nil {
		return nil, misuse("kubectl config view shows what is in it", "%w", err)
	}
	a.secrets.add(c.Secrets()...)
	c.First, c.Down = o.whole(), kube.DefaultDown
	if a.askedFor("timeout") { // who asks for patience gets it
		c.Down = c.First
	}
	a.say("context %s, %s", c.Context, c.Server)
	return c, nil
}

// askedFor says that somebody has set a flag: on the command line, by its variable, or in a file.
func (a *app) askedFor(flag string) bool {
	source := a.settings.of(flag).Source
	return source != "" && source != FromDefault
}

// whole is how long is waited for what has never answered.
func (o *clusterFlags) whole() time.Duration {
	return cmp.Or(time.Duration(o.timeout), kube.DefaultTimeout)
}

// asks is the command with which anybody can see whether the cluster answers.
func (o *clusterFlags) asks(c *kube.Cluster) string {
	command := "kubectl"
	if o.kubeconfig != "" {
		command += " --kubeconfig " + layout.Quoted(o.kubeconfig)
	}
	if c.Context != kube.InCluster {
		command += " --context " + layout.Quoted(c.Context)
	}
	return "see whether '" + command + " version' gets an answer"
}

const logInHint = "log in to the cluster again"

// unasked is the Problem of a cluster that did not answer, or not as it should. The hint
// goes with the reason: who may not does not want what helps who is cut off.
func (o *clusterFlags) unasked(c *kube.Cluster, err error) *Problem {
	hint := ""
	switch {
	case kube.IsUnauthorized(err):
		hint = logInHint
	case kube.IsAnonymous(err):
		hint = "the kubeconfig gives no credentials for this context: " + logInHint
	case kube.IsForbidden(err):
		hint = rightsHint
	case kube.WebhookOf(err) != "":
		hint = "the operator behind that webhook does not run: 'kubectl get deployments -A' shows which has no ready replica"
	case kube.IsAway(err) || kube.IsInvalid(err) || !c.Reached():
		hint = o.asks(c)
	}
	return unmeasured(hint, "%w", err)
}

// takeSnapshot takes one of a cluster.
func (a *app) takeSnapshot(ctx context.Context, c *kube.Cluster, o clusterFlags, mostNodes int) (*spec.Snapshot, error) {
	whole := o.whole()
	s, err := kube.Collect(ctx, c, kube.Options{Timeout: whole, RequestTimeout: min(whole, kube.DefaultRequestTimeout), MaxNodesPerEntry: mostNodes, Now: a.env.Now(), Version: a.env.Build.Version})
	if gone, ok := errors.AsType[*kube.UnreachableError](err); ok {
		hint := o.asks(c)
		if gone.Reason.Reason == spec.ReasonForbidden {
			hint = logInHint
		}
		return nil, unmeasured(hint, "the cluster cannot be asked: %w", gone)
	}
	return s, err
}

const (
	configMapScheme = "cm://"
	liveSnapshot    = "live"
)

// configMapPlace reads cm://NAMESPACE/NAME.
func configMapPlace(place string) (namespace, name string, err error) {
	namespace, name, _ = strings.Cut(strings.TrimPrefix(place, configMapScheme), "/")
	if namespace == "" || name == "" || strings.ContainsAny(name, "/ ") || strings.Contains(namespace, " ") {
		return "", "", misuse("write cm://NAMESPACE/NAME", "%q names no ConfigMap", place)
	}
	return namespace, name, nil
}

// readSnapshot reads a Snapshot from a file, where nothing is contacted.
func (a *app) readSnapshot(place string) (*spec.Snapshot, error) {
	if strings.HasPrefix(place, configMapScheme) {
		return nil, misuse("write it to a file first, with kubectl get configmap", "--snapshot: %s is in a cluster, and nothing is contacted here", place)
	}
	data, err := a.readSnapshotFile(place)
	if err != nil {
		return nil, err
	}
	return decodedSnapshot(place, data)
}

// readSnapshotOf reads a Snapshot that may be on the cluster that is meant.
func (a *app) readSnapshotOf(ctx context.Context, place string, o clusterFlags) (*spec.Snapshot, error) {
	read := a.readSnapshotFile
	if strings.HasPrefix(place, configMapScheme) {
		read = func(place string) ([]byte, error) { return a.readConfigMap(ctx, place, o) }
	}
	data, err := read(place)
	if err != nil {
		return nil, err
	}
	return decodedSnapshot(place, data)
}

func decodedSnapshot(place string, data []byte) (*spec.Snapshot, error) {
	s, err := spec.DecodeSnapshot(data)
	if err != nil {
		return nil, mistakes(place, err)
	}
	return s, nil
}

const takeOne = "aicr snapshot --write FILE takes one"

func (a *app) readSnapshotFile(path string) ([]byte, error) {
	data, err := readWithin(a.ended, path, spec.MaxSnapshot)
	if err != nil {
		return nil, misuse(takeOne, "reading the snapshot: %w", err)
	}
	return data, nil
}

func (a *app) readConfigMap(ctx context.Context, place string, o clusterFlags) ([]byte, error) {
	namespace, name, err := configMapPlace(place)
	if err != nil {
		return nil, err
	}
	c, err := a.connect(o)
	if err != nil {
		return nil, err
	}
	data, err := kube.ReadConfigMap(ctx, c, namespace, name)
	if err != nil {
		return nil, o.unasked(c, fmt.Errorf("reading %s: %w", place, err))
	}
	return data, nil
}
