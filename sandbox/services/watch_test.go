package services

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/sandbox/network"
)

func ptr[T any](v T) *T { return &v }

func endpoint(address string, ready *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
}

func slice(service string, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: endpoints,
	}
}

func service(name, address string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: ports},
	}
}

func TestTheDirectoryIsWhatTheAPIServerSays(t *testing.T) {
	at := netip.MustParseAddrPort
	named := slice("web", []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8000))}, {Name: ptr("metrics"), Port: ptr(int32(9090))}},
		endpoint("10.244.0.5", ptr(true)), endpoint("10.244.0.6", ptr(false)), endpoint("10.244.0.4", nil))
	named.Endpoints[0].Hostname = ptr("Web-0")
	six := slice("web", []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8000))}}, endpoint("fd00::1", ptr(true)))
	six.AddressType = discoveryv1.AddressTypeIPv6
	outside := service("outside", "")
	outside.Spec.Type = corev1.ServiceTypeExternalName

	got := directoryOf([]*corev1.Service{
		service("web", "10.96.3.3", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 90, Protocol: corev1.ProtocolTCP}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}),
		service("plain", "10.96.3.4", corev1.ServicePort{Port: 80}),
		service("headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 80}),
		outside,
	}, []*discoveryv1.EndpointSlice{
		named, six,
		slice("plain", []discoveryv1.EndpointPort{{Port: ptr(int32(8080))}}, endpoint("10.244.0.7", ptr(true))),
		slice("headless", []discoveryv1.EndpointPort{{Name: ptr(""), Port: ptr(int32(80))}}, endpoint("10.244.0.9", ptr(true)), endpoint("10.244.0.8", ptr(true))),
		slice("nobody's", []discoveryv1.EndpointPort{{Port: ptr(int32(1))}}, endpoint("10.244.0.1", ptr(true))),
	})
	want := network.NewDirectory([]network.Service{
		{
			Namespace: "ns", Name: "web", Address: netip.MustParseAddr("10.96.3.3"),
			Ports: []network.Port{
				{Number: 80, Ready: []netip.AddrPort{at("10.244.0.5:8000"), at("10.244.0.4:8000")}, Known: []netip.AddrPort{at("10.244.0.5:8000"), at("10.244.0.6:8000"), at("10.244.0.4:8000")}},
				{Number: 90, Ready: []netip.AddrPort{at("10.244.0.5:9090"), at("10.244.0.4:9090")}, Known: []netip.AddrPort{at("10.244.0.5:9090"), at("10.244.0.6:9090"), at("10.244.0.4:9090")}},
			},
			Hosts: []network.Host{{Address: netip.MustParseAddr("10.244.0.4")}, {Name: "web-0", Address: netip.MustParseAddr("10.244.0.5")}},
		},
		{
			Namespace: "ns", Name: "plain", Address: netip.MustParseAddr("10.96.3.4"),
			Ports: []network.Port{{Number: 80, Ready: []netip.AddrPort{at("10.244.0.7:8080")}, Known: []netip.AddrPort{at("10.244.0.7:8080")}}},
			Hosts: []network.Host{{Address: netip.MustParseAddr("10.244.0.7")}},
		},
		{
			Namespace: "ns", Name: "headless",
			Ports: []network.Port{{Number: 80, Ready: []netip.AddrPort{at("10.244.0.9:80"), at("10.244.0.8:80")}, Known: []netip.AddrPort{at("10.244.0.9:80"), at("10.244.0.8:80")}}},
			Hosts: []network.Host{{Address: netip.MustParseAddr("10.244.0.8")}, {Address: netip.MustParseAddr("10.244.0.9")}},
		},
	})
	same := []cmp.Option{
		cmp.Exporter(func(t reflect.Type) bool { return t.PkgPath() == "aicr/sandbox/network" }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, same...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
