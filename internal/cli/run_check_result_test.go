package cli

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// copyServer keeps the one ConfigMap of a load, and notes by which rights it was asked.
type copyServer struct {
	mu    sync.Mutex
	there kube.Object
	loses bool // the answer to the first create
	used  map[string]bool
}

func (s *copyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, ok := map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	if !ok || !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/aicr-validation/configmaps") {
		verb = r.Method + " " + r.URL.Path
	}
	s.used[verb] = true
	w.Header().Set("Content-Type", "application/json")
	switch {
	case verb == "create" && s.there == nil:
		if err := json.NewDecoder(r.Body).Decode(&s.there); err != nil {
			s.used[err.Error()] = true
		}
		if s.loses {
			s.loses = false
			panic(http.ErrAbortHandler)
		}
	case verb == "create" && s.loses:
		s.loses = false
		panic(http.ErrAbortHandler)
	case verb == "create":
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"it already exists"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(s.there)
}

// A load writes its copy once: its Job is tried once, and its pod not started again. One
// that is there already is somebody's last word, and stays; where the answer to its making
// was lost, it is looked at whose it is. That is all that the load has rights for.
func TestTheCopyOfAResultIsMadeOnceAndNeverWrittenOver(t *testing.T) {
	used := map[string]bool{}
	for name, c := range map[string]struct {
		run   string // of the copy that is there; "": none is
		loses bool
		made  bool
	}{
		"none is there":            {made: true},
		"the answer is lost":       {loses: true, made: true},
		"one of this run is there": {run: checkedRun},
		"one of another is there":  {run: "20261116-015518-fedcba9876543210"},
		"and the answer is lost":   {run: "20261116-015518-fedcba9876543210", loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &graph.Settings{Run: checkedRun, Namespace: "aicr-validation"}
			server := &copyServer{used: map[string]bool{}, loses: c.loses}
			if c.run != "" {
				server.there = graph.ResultCopy(s, []graph.ResultFile{{Name: "verdict.json", Data: []byte("the first")}})
				server.there["metadata"].(map[string]any)["labels"].(map[string]any)[graph.LabelRun] = c.run
			}
			srv := httptest.NewTLSServer(server)
			defer srv.Close()
			config := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: load, user: {token: t}}]\ncontexts: [{name: test, context: {cluster: test, user: load}}]\n",
				srv.URL, jsonBytes(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
			if err := os.WriteFile(config, text, 0o600); err != nil {
				t.Fatal(err)
			}
			a := newApp(Env{LookupEnv: func(name string) (string, bool) { return config, name == "KUBECONFIG" }})
			k := &checkKeeper{app: a, options: &checkOptions{results: t.TempDir()}, given: &givenRun{settings: *s, plan: &spec.Plan{}}}
			where, err := k.copyResult(t.Context(), &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Pass})
			if c.made != (err == nil) || c.made != (where != "") || !c.made && !kube.IsExists(err) {
				t.Errorf("%q, %v", where, err)
			}
			if was := server.there.Text("data", "verdict.json") == "the first"; was == c.made {
				t.Errorf("what is there: %v", server.there)
			}
			maps.Copy(used, server.used)
		})
	}
	given := map[string]bool{}
	rules, _ := graph.LoadRules(&graph.Settings{Run: checkedRun})
	for _, r := range rules {
		for _, verb := range r.Verbs {
			given[verb] = true
		}
	}
	if !maps.Equal(used, given) {
		t.Errorf("the load has used %v, and has the rights %v", used, given)
	}
}

func jsonBytes(t *testing.T, data []byte) string {
	t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
