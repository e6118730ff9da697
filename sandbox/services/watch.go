package services

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"aicr/sandbox/network"
)

// Watch gives out a new network.Directory whenever services or endpoints have changed, until
// ctx ends; it returns once the first has been given. While the API server is away the
// last one stands.
func Watch(ctx context.Context, client kubernetes.Interface, changed func(*network.Directory)) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	services, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	again := make(chan struct{}, 1)
	poke := func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
		DeleteFunc: func(any) { poke() },
	}
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), endpoints.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced, endpoints.Informer().HasSynced) {
		return ctx.Err()
	}
	give := func() error {
		s, err := services.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		e, err := endpoints.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		changed(directoryOf(s, e))
		return nil
	}
	if err := give(); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-again:
			}
			_ = give() // listing from memory does not fail
			// Changes come in flocks.
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return nil
}

func directoryOf(services []*corev1.Service, parts []*discoveryv1.EndpointSlice) *network.Directory {
	of := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for _, s := range parts {
		if s.AddressType == discoveryv1.AddressTypeIPv4 {
			key := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
			of[key] = append(of[key], s)
		}
	}
	var all []network.Service
	for _, s := range services {
		if s.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		all = append(all, serviceOf(s, of[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]))
	}
	return network.NewDirectory(all)
}

func serviceOf(s *corev1.Service, parts []*discoveryv1.EndpointSlice) network.Service {
	out := network.Service{Namespace: s.Namespace, Name: s.Name}
	if address, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && address.Is4() {
		out.Address = address
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
			continue
		}
		port := network.Port{Number: uint16(p.Port)}
		each(parts, func(slice *discoveryv1.EndpointSlice, e discoveryv1.Endpoint, address netip.Addr) {
			for _, ep := range slice.Ports {
				if ep.Port == nil || value(ep.Name, "") != p.Name {
					continue
				}
				at := netip.AddrPortFrom(address, uint16(*ep.Port))
				port.Known = append(port.Known, at)
				if value(e.Conditions.Ready, true) {
					port.Ready = append(port.Ready, at)
				}
			}
		})
		out.Ports = append(out.Ports, port)
	}
	each(parts, func(_ *discoveryv1.EndpointSlice, e discoveryv1.Endpoint, address netip.Addr) {
		if value(e.Conditions.Ready, true) {
			out.Hosts = append(out.Hosts, network.Host{Name: strings.ToLower(value(e.Hostname, "")), Address: address})
		}
	})
	slices.SortFunc(out.Hosts, func(a, b network.Host) int { return a.Address.Compare(b.Address) })
	return out
}

func each(parts []*discoveryv1.EndpointSlice, do func(*discoveryv1.EndpointSlice, discoveryv1.Endpoint, netip.Addr)) {
	for _, slice := range parts {
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				if address, err := netip.ParseAddr(a); err == nil {
					do(slice, e, address)
				}
			}
		}
	}
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
