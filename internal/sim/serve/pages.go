package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// present are the workers that the frontend knows of, by their ids. It knows
// of none while its discovery is broken.
func (s *Server) present() []uint64 {
	if serving, _ := s.fleet.Serving(); !serving {
		return nil
	}
	var ids []uint64
	for _, i := range s.fleet.Present() {
		ids = append(ids, s.workers[i])
	}
	return ids
}

type modelPage struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Created       int64  `json:"created"`
	OwnedBy       string `json:"owned_by"`
	ContextWindow int    `json:"context_window"`
}

func (s *Server) modelPage() modelPage {
	return modelPage{s.options.Model, "model", time.Now().Unix(), "nvidia", s.context}
}

// models is GET /v1/models, which lists what can be served.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string      `json:"object"`
		Data   []modelPage `json:"data"`
	}{"list", []modelPage{}}
	if len(s.present()) > 0 {
		list.Data = append(list.Data, s.modelPage())
	}
	writeJSON(w, http.StatusOK, list)
}

// model is GET /v1/models/{id}, where an id may have slashes, and
// /v1/models/{id}/ready.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	id, ready := strings.CutSuffix(id, "/ready")
	workers := len(s.present())
	if id != s.options.Model || workers == 0 {
		refused := refusal{http.StatusNotFound, saysNotFound}
		writeJSON(w, refused.status, refused.page())
		return
	}
	if !ready {
		writeJSON(w, http.StatusOK, s.modelPage())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"model":%s,"ready":true,"namespaces":{"dynamo":{"ready":true,"worker_types":{"aggregated":{"workers":%d,"needs":[]}},"present":["aggregated"],"missing_worker_types":[]}}}`,
		encode(id), workers)
}

type instance struct {
	Component string `json:"component"`
	Endpoint  string `json:"endpoint"`
	Namespace string `json:"namespace"`
	ID        uint64 `json:"instance_id"`
	Transport struct {
		TCP string `json:"tcp"`
	} `json:"transport"`
	Device string `json:"device_type"`
	Codec  string `json:"request_plane_codec"`
}

// health is the frontend's GET /health: 200 and healthy, whoever is there.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	health := struct {
		Status    string     `json:"status"`
		Endpoints []string   `json:"endpoints"`
		Instances []instance `json:"instances"`
	}{"healthy", []string{}, []instance{}}
	workers := s.present()
	slices.Sort(workers)
	for _, id := range workers {
		health.Instances = append(health.Instances, instanceOf(id, "generate"), instanceOf(id, "worker_kv_query_source_"+strconv.FormatUint(id>>8, 16)))
	}
	slices.SortStableFunc(health.Instances, func(a, b instance) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	for _, i := range health.Instances {
		health.Endpoints = append(health.Endpoints, "dyn://"+i.Namespace+"."+i.Component+"."+i.Endpoint)
	}
	health.Endpoints = slices.Compact(health.Endpoints)
	writeJSON(w, http.StatusOK, health)
}

// instanceOf is what a worker has registered. Nothing listens at its address.
func instanceOf(id uint64, endpoint string) instance {
	i := instance{Component: "backend", Endpoint: endpoint, Namespace: "dynamo", ID: id, Device: "cuda", Codec: "msgpack"}
	i.Transport.TCP = fmt.Sprintf("127.0.0.1:%d/%x/%s", 32768+id%28232, id, endpoint)
	return i
}

// live is the frontend's GET /live.
func live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}{"live", "Service is live"})
}

// workerHealth is a worker's GET /health and /live. It tells whether the worker
// is there, and nothing of whether it works or the frontend finds it.
func (s *Server) workerHealth(w http.ResponseWriter, i int) {
	snapshot := s.fleet.Snapshot()
	worker := snapshot.Workers[i]
	status, word := http.StatusOK, "ready"
	if !worker.Present {
		status, word = http.StatusServiceUnavailable, "notready"
	}
	up := snapshot.At - worker.Started
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"%s","uptime":{"secs":%d,"nanos":%d},"endpoints":{"generate":"%s"}}`,
		word, up/time.Second, up%time.Second, word)
}
