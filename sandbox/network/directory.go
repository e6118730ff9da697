package network

import (
	"net/netip"
	"slices"
)

// Directory is all services of the cluster at one moment. It is never changed.
type Directory struct {
	services map[serviceKey]Service
}

type serviceKey struct{ namespace, name string }

// Service is one of them, with where it leads.
type Service struct {
	Namespace, Name string
	Address         netip.Addr // none: it is headless
	Ports           []Port
	Hosts           []Host // what its name means when it is headless
}

// Port is one of a service's ports.
type Port struct {
	Number uint16
	Ready  []netip.AddrPort // where new connections go
	Known  []netip.AddrPort // where those that exist may stay
}

// Host is an endpoint that is ready. Its name is often empty.
type Host struct {
	Name    string
	Address netip.Addr
}

// NewDirectory makes one.
func NewDirectory(services []Service) *Directory {
	d := &Directory{services: make(map[serviceKey]Service, len(services))}
	for _, s := range services {
		d.services[serviceKey{s.Namespace, s.Name}] = s
	}
	return d
}

// lookup finds the addresses of a service's name. host may be empty.
func (d *Directory) lookup(namespace, name, host string) (addresses []netip.Addr, found bool) {
	s, found := d.services[serviceKey{namespace, name}]
	if !found {
		return nil, false
	}
	if s.Address.IsValid() {
		if host != "" {
			return nil, false
		}
		return []netip.Addr{s.Address}, true
	}
	for _, h := range s.Hosts {
		if (host == "" || h.Name == host) && !slices.Contains(addresses, h.Address) {
			addresses = append(addresses, h.Address)
		}
	}
	return addresses, host == "" || len(addresses) > 0
}

// fronts are the addresses at which services are to be had: those with somewhere to
// lead to. For the others the kernel refuses the connection, as a real cluster does.
func (d *Directory) fronts() map[netip.AddrPort]Port {
	fronts := map[netip.AddrPort]Port{}
	for _, s := range d.services {
		if !s.Address.IsValid() {
			continue
		}
		for _, p := range s.Ports {
			if len(p.Ready) > 0 {
				fronts[netip.AddrPortFrom(s.Address, p.Number)] = p
			}
		}
	}
	return fronts
}

// known says whether an endpoint is still one of any service.
func (d *Directory) known() map[netip.AddrPort]bool {
	known := map[netip.AddrPort]bool{}
	for _, s := range d.services {
		for _, p := range s.Ports {
			for _, e := range p.Known {
				known[e] = true
			}
		}
	}
	return known
}
