package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/sandbox/network"
)

// serve answers at the node's address, over HTTPS, whoever the API server lets.
func (n *node) serve(ctx context.Context) error {
	certificate, err := n.Authority.NodeCertificate(n.Name, n.addr)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(n.addr.String(), strconv.Itoa(network.KubeletPort)))
	if err != nil {
		return err
	}
	gate := &gate{n: n, allowed: map[string]time.Time{}, inside: api.PodHandler(api.PodHandlerConfig{
		RunInContainer: n.RunInContainer, AttachToContainer: n.AttachToContainer, PortForward: n.PortForward,
		GetContainerLogs: n.GetContainerLogs, GetStatsSummary: n.GetStatsSummary, GetPods: n.podList, GetPodsFromKubernetes: n.podList,
		StreamIdleTimeout: 4 * time.Hour, StreamCreationTimeout: 30 * time.Second,
	}, true)}
	server := &http.Server{
		Handler: gate, ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(writerFunc(func(text []byte) { n.Logf("node %s: %s", n.Name, text) }), "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: n.Authority.Pool(), ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12},
		// Exec and port-forward upgrade the connection, which HTTP/2 cannot.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			n.Logf("node %s: %v", n.Name, err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) { f(text); return len(text), nil }

func (n *node) podList(context.Context) ([]*v1.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*v1.Pod
	for _, r := range n.runs {
		all = append(all, r.current())
	}
	return all, nil
}

// gate lets in whom the API server would: who somebody is comes from a certificate or
// by TokenReview, and what he may from SubjectAccessReview.
type gate struct {
	n      *node
	inside http.Handler

	mu      sync.Mutex
	allowed map[string]time.Time // until when an answer holds
}

const answerHolds = 10 * time.Second

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, err := g.who(r)
	if err != nil {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	verb, part := attributes(r)
	may, err := g.may(r.Context(), user, verb, part)
	switch {
	case err != nil:
		http.Error(w, "the API server could not be asked: "+err.Error(), http.StatusInternalServerError)
	case !may:
		http.Error(w, "Forbidden (user="+user.Username+", verb="+verb+", resource=nodes, subresource(s)=["+part+"])\n", http.StatusForbidden)
	default:
		g.inside.ServeHTTP(w, r)
	}
}

func (g *gate) who(r *http.Request) (authentication.UserInfo, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		return authentication.UserInfo{Username: subject.CommonName, Groups: append(subject.Organization, "system:authenticated")}, nil
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return authentication.UserInfo{}, errors.New("nobody")
	}
	review, err := g.n.api.AuthenticationV1().TokenReviews().Create(r.Context(), &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: text}}, metav1.CreateOptions{})
	if err != nil {
		return authentication.UserInfo{}, err
	}
	if !review.Status.Authenticated {
		return authentication.UserInfo{}, errors.New("not a token of this cluster")
	}
	return review.Status.User, nil
}

// attributes are the verb and the subresource of nodes that a request needs.
func attributes(r *http.Request) (verb, part string) {
	switch r.Method {
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodDelete:
		verb = "delete"
	default:
		verb = "get"
	}
	part = "proxy"
	for prefix, name := range map[string]string{"/stats": "stats", "/metrics": "metrics", "/logs": "log"} {
		if r.URL.Path == prefix || strings.HasPrefix(r.URL.Path, prefix+"/") {
			part = name
		}
	}
	return verb, part
}

func (g *gate) may(ctx context.Context, user authentication.UserInfo, verb, part string) (bool, error) {
	key := strings.Join(append([]string{user.Username, verb, part}, user.Groups...), "\x00")
	g.mu.Lock()
	holds := time.Now().Before(g.allowed[key])
	g.mu.Unlock()
	if holds {
		return true, nil
	}
	spec := authorization.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID,
		ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: part, Name: g.n.Name},
	}
	review, err := g.n.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	if review.Status.Allowed {
		g.mu.Lock()
		g.allowed[key] = time.Now().Add(answerHolds)
		g.mu.Unlock()
	}
	return review.Status.Allowed, nil
}
