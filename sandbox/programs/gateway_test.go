package programs

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// An endpoint picker is ready once its workers serve a model, and not before.
func TestAPickerServesWhenItHasWorkers(t *testing.T) {
	page := ""
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
	t.Cleanup(models.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, pickerHealth{models: models.URL})
	go func() { _ = s.Serve(l) }() // it ends by Stop
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is asked any more
	client := grpc_health_v1.NewHealthClient(conn)
	for _, c := range []struct {
		page string
		want grpc_health_v1.HealthCheckResponse_ServingStatus
	}{
		{`{"object":"list","data":[]}`, grpc_health_v1.HealthCheckResponse_NOT_SERVING},
		{`{"object":"list","data":[{"id":"m"}]}`, grpc_health_v1.HealthCheckResponse_SERVING},
		{`gone`, grpc_health_v1.HealthCheckResponse_NOT_SERVING},
	} {
		page = c.page
		got, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: PickerService})
		if err != nil || got.GetStatus() != c.want {
			t.Errorf("%s: %v, %v", c.page, got, err)
		}
	}
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "another"}); status.Code(err) != codes.NotFound {
		t.Errorf("of another service: %v", err)
	}
}
