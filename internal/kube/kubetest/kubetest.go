// Package kubetest is an API server for tests: it serves objects over TLS as a real one
// does, with discovery and pages, and can refuse, hang or talk nonsense at any path. What
// is tested against it goes through the whole of client-go.
package kubetest

import (
	"bytes"
	"embed"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var worlds embed.FS

// Token is what the server wants to hear.
const Token = "kubetest-secret-token"

// Object is one as it is written in JSON.
type Object = map[string]any

// Server is the API server. Its fields may be changed before it is asked.
type Server struct {
	URL        string
	GitVersion string

	mu       sync.Mutex
	lists    map[string]*list  // by path
	answers  map[string]answer // instead, by path
	requests []Request
	accepted map[string]string // the media type that was asked for last, by path
	maps     map[string]Object // ConfigMaps by path

	ca []byte
}

type list struct {
	apiVersion, kind string
	items            []json.RawMessage
}

type answer struct {
	status int // 0 hangs
	body   string
}

// Request is one that was made.
type Request struct{ Method, Path, Query string }

// plurals of the kinds that there are in worlds.
var plurals = map[string]string{
	"Node": "nodes", "Deployment": "deployments", "DaemonSet": "daemonsets", "StorageClass": "storageclasses",
	"ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "ClusterPolicy": "clusterpolicies",
	"DynamoGraphDeployment": "dynamographdeployments", "DynamoComponentDeployment": "dynamocomponentdeployments",
	"Queue": "queues", "PodCliqueSet": "podcliquesets", "Pod": "pods", "ResourceClaim": "resourceclaims",
}

// always is what every cluster serves.
var always = []string{"v1/Node", "v1/Pod", "apps/v1/Deployment", "apps/v1/DaemonSet", "storage.k8s.io/v1/StorageClass"}

// New has the objects of testdata/WORLD.yaml; "" is an empty cluster. It is a handler
// that listens nowhere yet: a test in virtual time serves it over a network in memory.
func New(t testing.TB, world string) *Server {
	t.Helper()
	s := &Server{GitVersion: "v1.34.1", lists: map[string]*list{}, answers: map[string]answer{}, accepted: map[string]string{}, maps: map[string]Object{}}
	for _, kind := range always {
		s.Serve(kind)
	}
	if world != "" {
		text, err := worlds.ReadFile("testdata/" + world + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var object Object
			if err := yaml.Unmarshal(doc, &object); err != nil {
				t.Fatal(err)
			}
			s.Add(object)
		}
	}
	return s
}

// Start serves such a cluster over TLS.
func Start(t testing.TB, world string) *Server {
	t.Helper()
	s := New(t, world)
	web := httptest.NewUnstartedServer(s)
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // of a client that distrusts it, which is what a test is for
	web.EnableHTTP2 = true
	web.StartTLS()
	s.URL = web.URL
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return s
}

// Kubeconfig is one with two contexts, test and other, that trusts the server.
func (s *Server) Kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster: {server: %q, certificate-authority-data: %s}
- name: distrusted
  cluster: {server: %q}
users:
- name: reader
  user: {token: %s}
contexts:
- name: test
  context: {cluster: test, user: reader}
- name: staging
  context: {cluster: distrusted, user: reader}
`, s.URL, encoded(s.ca), s.URL, Token)
}

func encoded(data []byte) string {
	text, _ := json.Marshal(data) // base64, as the file wants it
	return string(text)
}

// Add puts an object on the cluster.
func (s *Server) Add(object Object) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	path := s.Serve(apiVersion + "/" + kind)
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path].items = append(s.lists[path].items, data)
}

// Serve makes the server have a kind, group/version/Kind, and gives the path of its list.
func (s *Server) Serve(kind string) string {
	cut := strings.LastIndexByte(kind, '/')
	apiVersion, name := kind[:cut], kind[cut+1:]
	path := "/apis/" + apiVersion + "/" + plurals[name]
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion + "/" + plurals[name]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists[path] == nil {
		s.lists[path] = &list{apiVersion: apiVersion, kind: name}
	}
	return path
}

// Remove takes all of a kind from the cluster, and the kind itself.
func (s *Server) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lists, path)
}

// Empty takes all of a kind from the cluster.
func (s *Server) Empty(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path].items = nil
}

// Answer makes a path answer so, whatever is there; "" is every path that has no answer of
// its own.
func (s *Server) Answer(path string, status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = answer{status, body}
}

// Hang makes a path never answer.
func (s *Server) Hang(path string) { s.Answer(path, 0, "") }

// Requests are all that were made.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Accepted is the media type that a path was last asked for.
func (s *Server) Accepted(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted[path]
}

// ConfigMap is what was kept at namespace/name.
func (s *Server) ConfigMap(namespace, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maps["/api/v1/namespaces/"+namespace+"/configmaps/"+name]
}

// Keep puts a ConfigMap there.
func (s *Server) Keep(namespace, name string, object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maps["/api/v1/namespaces/"+namespace+"/configmaps/"+name] = object
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery})
	s.accepted[r.URL.Path] = r.Header.Get("Accept")
	set, isSet := s.answers[r.URL.Path]
	if !isSet {
		set, isSet = s.answers[""]
	}
	s.mu.Unlock()
	switch {
	case isSet && set.status == 0:
		<-r.Context().Done()
		return
	case r.Header.Get("Authorization") != "Bearer "+Token:
		problem(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case isSet && set.status == http.StatusForbidden && set.body == "":
		problem(w, set.status, "Forbidden", fmt.Sprintf("%s is forbidden: User \"reader\" cannot list it at the cluster scope", r.URL.Path))
	case isSet && set.body == "":
		problem(w, set.status, http.StatusText(set.status), "made for the test")
	case isSet:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(set.status)
		_, _ = io.WriteString(w, set.body)
	case strings.Contains(r.URL.Path, "/configmaps/"):
		s.configMap(w, r)
	default:
		s.get(w, r)
	}
}

func problem(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": strings.ReplaceAll(reason, " ", ""), "message": message})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	switch groups := s.groups(); {
	case r.Method != http.MethodGet:
		problem(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	case path == "/version":
		reply(w, http.StatusOK, Object{"major": "1", "minor": "34", "gitVersion": s.GitVersion, "platform": "linux/amd64"})
	case path == "/apis":
		var all []Object
		for _, g := range sortedKeys(groups) {
			all = append(all, group(g, groups[g]))
		}
		reply(w, http.StatusOK, Object{"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
	case s.lists[path] != nil:
		s.page(w, r, s.lists[path])
	default:
		parts := strings.Split(strings.Trim(path, "/"), "/")
		if len(parts) == 2 && parts[0] == "apis" && groups[parts[1]] != nil {
			reply(w, http.StatusOK, group(parts[1], groups[parts[1]]))
			return
		}
		if len(parts) == 3 && parts[0] == "apis" && groups[parts[1]][parts[2]] != nil {
			var resources []Object
			for _, plural := range groups[parts[1]][parts[2]] {
				resources = append(resources, Object{"name": plural, "kind": plural, "verbs": []string{"get", "list"}}, Object{"name": plural + "/status", "kind": plural, "verbs": []string{"get"}})
			}
			reply(w, http.StatusOK, Object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": parts[1] + "/" + parts[2], "resources": resources})
			return
		}
		problem(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}
}

// group is one as discovery tells it.
func group(name string, served map[string][]string) Object {
	var versions []Object
	for _, v := range sortedKeys(served) {
		versions = append(versions, Object{"groupVersion": name + "/" + v, "version": v})
	}
	return Object{"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": versions[0]}
}

// groups are the plurals that are served, by group and version.
func (s *Server) groups() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, path := range sortedKeys(s.lists) {
		parts := strings.Split(strings.Trim(path, "/"), "/")
		if parts[0] != "apis" {
			continue
		}
		if all[parts[1]] == nil {
			all[parts[1]] = map[string][]string{}
		}
		all[parts[1]][parts[2]] = append(all[parts[1]][parts[2]], parts[3])
	}
	return all
}

// page answers with as many items as were asked for, and where the next ones are.
func (s *Server) page(w http.ResponseWriter, r *http.Request, l *list) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := len(l.items)
	meta := Object{"resourceVersion": "1"}
	if limit > 0 && from+limit < to {
		to = from + limit
		meta["continue"] = strconv.Itoa(to)
	}
	items := l.items[from:to]
	if items == nil {
		items = []json.RawMessage{}
	}
	reply(w, http.StatusOK, Object{"kind": l.kind + "List", "apiVersion": l.apiVersion, "metadata": meta, "items": items})
}

func (s *Server) configMap(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		if s.maps[r.URL.Path] == nil {
			problem(w, http.StatusNotFound, "NotFound", "configmaps is not there")
			return
		}
	case http.MethodPatch:
		var object Object
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = yaml.Unmarshal(data, &object)
		}
		if err != nil {
			problem(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
		s.maps[r.URL.Path] = object
	default:
		problem(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
		return
	}
	reply(w, http.StatusOK, s.maps[r.URL.Path])
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
