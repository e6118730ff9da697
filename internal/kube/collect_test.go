package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"aicr/internal/kube/kubetest"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

var update = flag.Bool("update", false, "write the golden files anew")

const eks = "h100-eks"

func connect(t *testing.T, s *kubetest.Server) *Cluster {
	t.Helper()
	c, err := Connect(Access{Kubeconfig: kubeconfig(t, s.Kubeconfig()), LookupEnv: nothing, Program: "aicr/test"})
	if err != nil {
		t.Fatal(err)
	}
	c.Limit = time.Minute // a machine that is busy is no server that is away
	return c
}

func kubeconfig(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func nothing(string) (string, bool) { return "", false }

// connectInMemory is connect in virtual time.
func connectInMemory(t *testing.T, s *kubetest.Server) *Cluster {
	t.Helper()
	const address = "api.test:80"
	var network memnet.Net
	web := &http.Server{Handler: s}
	listener := network.Listen(address)
	go func() { _ = web.Serve(listener) }()
	transport := &http.Transport{DialContext: network.Dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = web.Close()
	})
	c, err := connectTo(&rest.Config{Host: "http://" + address, BearerToken: kubetest.Token, Transport: transport}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var then = time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC)

func options() Options {
	return Options{Timeout: time.Minute, RequestTimeout: time.Minute, Now: then, Version: "v1.2.3"}
}

func collect(t *testing.T, s *kubetest.Server, o Options) *spec.Snapshot {
	t.Helper()
	got, err := Collect(t.Context(), connect(t, s), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fact is a fact in words: its value, or the reason why it is not known.
func fact(t *testing.T, s *spec.Snapshot, path string) string {
	t.Helper()
	kind, rest, _ := strings.Cut(path, ".")
	name, key, _ := strings.Cut(rest, ".")
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			if m.Type != kind || sub.Name != name {
				continue
			}
			value, known := sub.Data[key]
			why, unknown := sub.Unknown[key]
			switch {
			case known && unknown:
				t.Errorf("%s is both known and unknown", path)
			case known:
				return value.String()
			case unknown:
				if why.Detail == "" {
					t.Errorf("%s is %s without a detail", path, why.Reason)
				}
				return why.Reason
			}
		}
	}
	return "MISSING"
}

func TestTheWholeSnapshotOfACluster(t *testing.T) {
	server := kubetest.Start(t, eks)
	server.GitVersion = "v1.34.1-eks-113cf36"
	first := collect(t, server, options())
	got, err := spec.EncodeSnapshot(first, "yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", eks+".golden.yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := spec.EncodeSnapshot(collect(t, server, options()), "yaml")
	if err != nil || string(again) != string(got) {
		t.Error("the same cluster gives other bytes the second time")
	}
	if _, err := spec.DecodeSnapshot(got); err != nil {
		t.Errorf("what was written cannot be read: %v", err)
	}
}

const (
	nodesPath       = "/api/v1/nodes"
	slicesPath      = "/apis/resource.k8s.io/v1/resourceslices"
	classesPath     = "/apis/resource.k8s.io/v1/deviceclasses"
	deploymentsPath = "/apis/apps/v1/deployments"
	daemonsPath     = "/apis/apps/v1/daemonsets"
	graphsPath      = "/apis/nvidia.com/v1alpha1/dynamographdeployments"
	policiesPath    = "/apis/nvidia.com/v1/clusterpolicies"
	storagePath     = "/apis/storage.k8s.io/v1/storageclasses"
)

type readingFacts struct {
	path  string
	facts []string
}

// byReading are the facts that each reading is needed for.
var byReading = []readingFacts{
	{"/version", []string{"K8s.server.version", "K8s.server.platform"}},
	{"/apis", []string{"K8s.dynamo-crds.dynamographdeployments", "K8s.dra.api-version", "K8s.dynamo-runtime.version", "K8s.device-classes.count"}},
	{"/apis/resource.k8s.io/v1", []string{"K8s.dra.api-version", "K8s.dra.devices", "K8s.device-classes.count"}},
	{"/apis/nvidia.com/v1alpha1", []string{"K8s.dynamo-crds.dynamographdeployments", "K8s.dynamo-runtime.version"}},
	{nodesPath, []string{"K8s.node.kernel-version", "K8s.node.kubelet-version", "K8s.node.provider", "GPU.hardware.gpu-count", "GPU.hardware.gpu-present", "GPU.hardware.model", "OS.release.ID",
		"NodeTopology.summary.node-count", "NodeTopology.summary.gpu-node-count", "NodeTopology.label.*", "NodeTopology.taint.*", "NodeTopology.nodes.*"}},
	{slicesPath, []string{"K8s.dra.slices", "K8s.dra.devices", "K8s.dra.drivers"}},
	{classesPath, []string{"K8s.device-classes.count", "K8s.device-classes.names"}},
	{deploymentsPath, []string{"K8s.gpu-operator.installed", "K8s.gpu-operator.version", "K8s.dynamo-platform.chart", "K8s.dynamo-platform.operator", "K8s.kai-scheduler.version", "K8s.grove.installed"}},
	{daemonsPath, []string{"K8s.dcgm-exporter.installed", "K8s.dcgm-exporter.version"}},
	{graphsPath, []string{"K8s.dynamo-runtime.version", "K8s.dynamo-runtime.count"}},
	{policiesPath, []string{"K8s.gpu-operator.ready"}},
	{storagePath, []string{"K8s.storage-classes.count", "K8s.storage-classes.default"}},
}

// A reading that fails takes its own facts with it and no others, and says why.
func TestEachReadingFailsAlone(t *testing.T) {
	ways := []struct {
		name   string
		fail   func(*kubetest.Server, string)
		reason string
	}{
		{"forbidden", func(s *kubetest.Server, p string) { s.Answer(p, http.StatusForbidden, "") }, spec.ReasonForbidden},
		{"malformed", func(s *kubetest.Server, p string) { s.Answer(p, http.StatusOK, `{"kind": 7`) }, spec.ReasonUnreadable},
		{"no answer to the question", func(s *kubetest.Server, p string) { s.Answer(p, http.StatusOK, `{}`) }, spec.ReasonUnreadable},
		{"broken", func(s *kubetest.Server, p string) { s.Answer(p, http.StatusInternalServerError, "") }, spec.ReasonUnreachable},
	}
	whole := collect(t, kubetest.Start(t, eks), options())
	for _, way := range ways {
		for _, one := range byReading {
			if one.path == "/version" && way.reason != spec.ReasonForbidden {
				continue // TestAClusterThatCannotBeAsked
			}
			t.Run(way.name+one.path, func(t *testing.T) {
				server := kubetest.Start(t, eks)
				way.fail(server, one.path)
				failsAlone(t, whole, collect(t, server, options()), one, way.reason)
			})
		}
	}
	for _, one := range byReading[1:] {
		t.Run("timed out"+one.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := kubetest.New(t, eks)
				server.Hang(one.path)
				o := options()
				o.RequestTimeout = 15 * time.Second
				begin := time.Now()
				got, err := Collect(t.Context(), connectInMemory(t, server), o)
				if err != nil {
					t.Fatal(err)
				}
				failsAlone(t, whole, got, one, spec.ReasonTimedOut)
				if took := time.Since(begin); took != o.RequestTimeout {
					t.Errorf("it took %s, and the reading may take %s", took, o.RequestTimeout)
				}
			})
		})
	}
}

// failsAlone checks that the facts of one reading are unknown for a reason, and that
// the others are what they are without the failure.
func failsAlone(t *testing.T, whole, got *spec.Snapshot, failed readingFacts, reason string) {
	t.Helper()
	for _, path := range failed.facts {
		if is := fact(t, got, path); is != reason {
			t.Errorf("%s is %s, want %s", path, is, reason)
		}
	}
	for _, other := range byReading {
		for _, path := range other.facts {
			if was, is := fact(t, whole, path), fact(t, got, path); is != was && is != reason {
				t.Errorf("%s is %s, and was %s", path, is, was)
			}
		}
	}
	if other := "K8s.storage-classes.default"; failed.path != storagePath && fact(t, got, other) != "gp3" {
		t.Errorf("%s failed with it", other)
	}
}

// On an empty cluster everything is known: what is not there is absent, or false, or none.
func TestNothingThereIsAFact(t *testing.T) {
	got := collect(t, kubetest.Start(t, ""), options())
	for path, want := range map[string]string{
		"K8s.server.version":                     "v1.34.1",
		"K8s.node.kernel-version":                spec.ReasonAbsent,
		"K8s.gpu-operator.installed":             "false",
		"K8s.gpu-operator.version":               spec.ReasonAbsent,
		"K8s.gpu-operator.ready":                 spec.ReasonAbsent,
		"K8s.dynamo-platform.installed":          "false",
		"K8s.dynamo-platform.chart":              spec.ReasonAbsent,
		"K8s.dynamo-platform.operator":           spec.ReasonAbsent,
		"K8s.dynamo-crds.dynamographdeployments": spec.ReasonAbsent,
		"K8s.dynamo-runtime.version":             spec.ReasonAbsent,
		"K8s.dynamo-runtime.count":               "0",
		"K8s.kai-scheduler.installed":            "false",
		"K8s.grove.installed":                    "false",
		"K8s.dcgm-exporter.installed":            "false",
		"K8s.dra.api-version":                    spec.ReasonAbsent,
		"K8s.dra.devices":                        spec.ReasonAbsent,
		"K8s.device-classes.count":               spec.ReasonAbsent,
		"K8s.storage-classes.count":              "0",
		"K8s.storage-classes.default":            spec.ReasonAbsent,
		"GPU.hardware.gpu-present":               "false",
		"GPU.hardware.gpu-count":                 "0",
		"GPU.hardware.model":                     spec.ReasonAbsent,
		"OS.release.ID":                          spec.ReasonAbsent,
		"NodeTopology.summary.node-count":        "0",
		"NodeTopology.summary.gpu-node-count":    "0",
	} {
		if is := fact(t, got, path); is != want {
			t.Errorf("%s is %s, want %s", path, is, want)
		}
	}
}

func TestAnAPIThatIsNotServedIsAbsent(t *testing.T) {
	server := kubetest.Start(t, eks)
	for _, path := range []string{slicesPath, classesPath, graphsPath, policiesPath, "/apis/nvidia.com/v1alpha1/dynamocomponentdeployments", "/apis/grove.io/v1alpha1/podcliquesets"} {
		server.Remove(path)
	}
	server.Answer(deploymentsPath, http.StatusForbidden, "")
	got := collect(t, server, options())
	for path, want := range map[string]string{
		"K8s.dra.api-version":             spec.ReasonAbsent,
		"K8s.device-classes.names":        spec.ReasonAbsent,
		"K8s.dynamo-runtime.version":      spec.ReasonAbsent,
		"K8s.dynamo-runtime.count":        "0",
		"K8s.grove.installed":             "false", // without its API it cannot be there, whoever may list what
		"K8s.kai-scheduler.installed":     spec.ReasonForbidden,
		"GPU.hardware.gpu-count":          "16",
		"K8s.gpu-operator.installed":      spec.ReasonForbidden,
		"K8s.dynamo-platform.installed":   spec.ReasonForbidden,
		"K8s.dynamo-platform.namespace":   spec.ReasonForbidden,
		"NodeTopology.summary.node-count": "3",
	} {
		if is := fact(t, got, path); is != want {
			t.Errorf("%s is %s, want %s", path, is, want)
		}
	}
}

// slices in the three versions, of which v1beta1 has a level more.
func TestSlicesAreReadInTheBestVersionServed(t *testing.T) {
	device := kubetest.Object{"attributes": kubetest.Object{"type": kubetest.Object{"string": "gpu"}, "productName": kubetest.Object{"string": "B200"}}, "capacity": kubetest.Object{"memory": kubetest.Object{"value": "183359Mi"}}}
	add := func(s *kubetest.Server, version string, devices ...any) {
		s.Add(kubetest.Object{"apiVersion": "resource.k8s.io/" + version, "kind": "ResourceSlice", "metadata": kubetest.Object{"name": "n"},
			"spec": kubetest.Object{"driver": gpuDriver, "nodeName": "n", "pool": kubetest.Object{"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
	}
	flat := kubetest.Object{"name": "gpu-0", "attributes": device["attributes"], "capacity": device["capacity"]}
	nested := kubetest.Object{"name": "gpu-0", "basic": device}
	for _, tt := range []struct{ name, want string }{{"v1beta1", "v1beta1"}, {"v1beta2", "v1beta2"}, {"v1", "v1"}, {"v1beta1,v1", "v1"}, {"v1alpha3", spec.ReasonAbsent}} {
		t.Run(tt.name, func(t *testing.T) {
			server := kubetest.Start(t, "")
			server.Add(kubetest.Object{"apiVersion": "v1", "kind": "Node", "metadata": kubetest.Object{"name": "n"}})
			for v := range strings.SplitSeq(tt.name, ",") {
				if v == "v1beta1" {
					add(server, v, nested)
				} else {
					add(server, v, flat)
				}
			}
			got := collect(t, server, options())
			if is := fact(t, got, "K8s.dra.api-version"); is != tt.want {
				t.Errorf("version %s, want %s", is, tt.want)
			}
			if tt.want == spec.ReasonAbsent {
				return
			}
			for path, want := range map[string]string{"K8s.dra.devices": "1", "GPU.hardware.gpu-count": "1", "GPU.hardware.model": "B200", "GPU.hardware.gpu-memory-mib": "183359", "NodeTopology.summary.gpu-node-count": "1"} {
				if is := fact(t, got, path); is != want {
					t.Errorf("%s is %s, want %s", path, is, want)
				}
			}
		})
	}
}

// A runtime is told in both versions of its document; one whose webhook is dead is read in
// the other.
func TestRuntimesOfGraphDeployments(t *testing.T) {
	component := func(name, image string) any {
		return kubetest.Object{"name": name, "podTemplate": kubetest.Object{"spec": kubetest.Object{"containers": []any{
			kubetest.Object{"name": "sidecar", "image": "registry.example/sidecar:v9.9.9"}, kubetest.Object{"name": "main", "image": image}}}}}
	}
	beta := func(components ...any) kubetest.Object {
		return kubetest.Object{"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": kubetest.Object{"name": "g", "namespace": "n"}, "spec": kubetest.Object{"components": components}}
	}
	const repository = "registry.example/dynamo/vllm-runtime"
	for _, tt := range []struct {
		name    string
		objects []kubetest.Object
		want    string
	}{
		{"one version", []kubetest.Object{beta(component("frontend", repository+":1.2.0"), component("worker", repository+":1.2.0-cuda13"))}, "1.2.0"},
		{"mixed", []kubetest.Object{beta(component("frontend", repository+":1.2.0"), component("worker", repository+":1.1.0"))}, spec.ReasonMixed},
		{"a digest alone", []kubetest.Object{beta(component("frontend", repository+"@sha256:"+strings.Repeat("a", 64)))}, spec.ReasonUnreadable},
		{"latest beside a version", []kubetest.Object{beta(component("frontend", repository+":latest"), component("worker", repository+":1.1.0"))}, spec.ReasonUnreadable},
		{"no image", []kubetest.Object{beta(component("frontend", ""))}, spec.ReasonUnreadable},
		{"none deployed", nil, spec.ReasonAbsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := kubetest.Start(t, "")
			server.Serve("nvidia.com/v1beta1/DynamoGraphDeployment")
			for _, o := range tt.objects {
				server.Add(o)
			}
			got := collect(t, server, options())
			if is := fact(t, got, spec.FactDynamoRuntime); is != tt.want {
				t.Errorf("version %s, want %s", is, tt.want)
			}
		})
	}
	server := kubetest.Start(t, eks)
	server.Answer(server.Serve("nvidia.com/v1beta1/DynamoGraphDeployment"), http.StatusInternalServerError, "")
	got := collect(t, server, options())
	if is := fact(t, got, spec.FactDynamoRuntime); is != "0.9.0" {
		t.Errorf("with a dead webhook the version is %s", is)
	}
	if is := fact(t, got, spec.FactGraphCRD); is != "v1alpha1,v1beta1" {
		t.Errorf("versions served: %s", is)
	}
}

func TestAClusterThatCannotBeAsked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spoil  func(*kubetest.Server)
		config func(string) string
		want   string
	}{
		{name: "broken", spoil: func(s *kubetest.Server) { s.Answer("/version", http.StatusBadGateway, "") }, want: "made for the test"},
		{name: "no version", spoil: func(s *kubetest.Server) { s.Answer("/version", http.StatusNotFound, "") }, want: "made for the test"},
		{name: "untrusted certificate", config: func(c string) string {
			return strings.ReplaceAll(c, "current-context: test", "current-context: staging")
		}, want: "certificate"},
		{name: "wrong token", config: func(c string) string { return strings.ReplaceAll(c, kubetest.Token, "other-secret-token") }, want: "does not accept the credentials"},
		{name: "nobody there", config: func(c string) string {
			return strings.ReplaceAll(c, "https://127.0.0.1", "https://me:pass-word-1@127.0.0.1") + "\n"
		}, want: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := kubetest.Start(t, "")
			if tt.spoil != nil {
				tt.spoil(server)
			}
			text := string(server.Kubeconfig())
			if tt.config != nil {
				text = tt.config(text)
			}
			c, err := Connect(Access{Kubeconfig: kubeconfig(t, []byte(text)), LookupEnv: nothing})
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "nobody there" {
				c, err = Connect(Access{Kubeconfig: kubeconfig(t, []byte(strings.ReplaceAll(text, server.URL[strings.LastIndex(server.URL, ":"):], ":1"))), LookupEnv: nothing})
				if err != nil {
					t.Fatal(err)
				}
			}
			cannotBeAsked(t, c, options(), tt.want)
		})
	}
	t.Run("hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := kubetest.New(t, "")
			server.Hang("/version")
			o := options()
			o.RequestTimeout = 500 * time.Millisecond
			begin := time.Now()
			cannotBeAsked(t, connectInMemory(t, server), o, "no answer in 500ms")
			if took := time.Since(begin); took != o.RequestTimeout {
				t.Errorf("it took %s", took)
			}
		})
	})
}

func cannotBeAsked(t *testing.T, c *Cluster, o Options, want string) {
	t.Helper()
	_, err := Collect(t.Context(), c, o)
	if _, ok := errors.AsType[*UnreachableError](err); !ok {
		t.Fatalf("got %v, want an UnreachableError", err)
	}
	for _, secret := range []string{kubetest.Token, "other-secret-token", "pass-word-1"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("it tells a secret: %v", err)
		}
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}

func TestWhoInterruptsGetsNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.New(t, eks)
		server.Hang(nodesPath)
		ctx, cancel := context.WithCancel(t.Context())
		c := connectInMemory(t, server)
		go func() {
			synctest.Wait() // until nothing goes on but the request that hangs
			cancel()
		}()
		begin := time.Now()
		if s, err := Collect(ctx, c, options()); !errors.Is(err, context.Canceled) || time.Since(begin) != 0 {
			t.Errorf("got %v, %v after %s", s, err, time.Since(begin))
		}
		if !slices.ContainsFunc(server.Requests(), func(r kubetest.Request) bool { return r.Path == nodesPath }) {
			t.Error("the nodes were not asked for")
		}
	})
}

// 5,000 nodes come in pages, and all of them count.
func TestManyNodesArePaged(t *testing.T) {
	const many = 5000
	server := kubetest.Start(t, "")
	for i := range many {
		server.Add(kubetest.Object{"apiVersion": "v1", "kind": "Node", "metadata": kubetest.Object{"name": fmt.Sprintf("node-%04d", i), "labels": kubetest.Object{"pool": "gpu"}},
			"status": kubetest.Object{"capacity": kubetest.Object{"nvidia.com/gpu": "8"}, "allocatable": kubetest.Object{"nvidia.com/gpu": "8"}}})
	}
	o := options()
	o.MaxNodesPerEntry = 2
	got := collect(t, server, o)
	for path, want := range map[string]string{"NodeTopology.summary.node-count": "5000", "GPU.hardware.gpu-count": "40000", "NodeTopology.label.pool": "gpu|node-0000,node-0001 (+4998 more)"} {
		if is := fact(t, got, path); is != want {
			t.Errorf("%s is %s, want %s", path, is, want)
		}
	}
	pages := 0
	for _, r := range server.Requests() {
		if r.Path == nodesPath {
			pages++
		}
	}
	if pages != many/pageSize {
		t.Errorf("%d requests for nodes, want %d", pages, many/pageSize)
	}
}

// The role that is printed is enough, and nothing of it is superfluous.
func TestTheRoleIsWhatTheCollectorNeeds(t *testing.T) {
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(ClusterRole(), &role); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	allowed := func(r kubetest.Request) bool {
		ok := false
		parts := strings.Split(strings.Trim(r.Path, "/"), "/")
		for _, rule := range role.Rules {
			for _, url := range rule.NonResourceURLs {
				prefix, open := strings.CutSuffix(url, "*")
				// A list is a resource, and is not allowed by its path.
				if (r.Path == url || open && strings.HasPrefix(r.Path, prefix) && len(parts) <= 3) && slices.Contains(rule.Verbs, "get") {
					ok, used[url] = true, true
				}
			}
			group, plural := "", parts[len(parts)-1]
			if parts[0] == "apis" && len(parts) > 3 {
				group = parts[1]
			} else if parts[0] != "api" {
				continue
			}
			if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, plural) && slices.Contains(rule.Verbs, "list") {
				ok, used[group+"/"+plural] = true, true
			}
		}
		return ok
	}
	server := kubetest.Start(t, eks)
	collect(t, server, options())
	for _, r := range server.Requests() {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: the collector only reads", r.Method, r.Path)
		}
		if !allowed(r) {
			t.Errorf("%s is not in the role", r.Path)
		}
	}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("the role has the verb %s", verb)
			}
		}
		for _, url := range rule.NonResourceURLs {
			if !used[url] {
				t.Errorf("%s is in the role and was not asked for", url)
			}
		}
		for _, group := range rule.APIGroups {
			for _, plural := range rule.Resources {
				if !used[group+"/"+plural] {
					t.Errorf("%s/%s is in the role and was not asked for", group, plural)
				}
			}
		}
	}
}
