package load

import (
	"context"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
)

// Instance is a worker as a Dynamo frontend lists it.
type Instance struct {
	ID        uint64
	Component string // of which namespace, and what it is there
	Address   string // host:port on which the frontend reaches it; "": not told
}

// healthPath is where a Dynamo frontend lists its instances.
const healthPath = "/health"

// servingEndpoint is what Dynamo calls the endpoint of a worker that answers requests.
const servingEndpoint = "generate"

// Instances asks a Dynamo frontend which workers serve. There are none where it does not
// say.
func (t *Target) Instances(ctx context.Context) []Instance {
	body, err := t.ask(ctx, healthPath)
	if err != nil {
		return nil
	}
	return InstancesOf(body)
}

// InstancesOf reads a health page. An id is a number above 2^53, which no float holds.
func InstancesOf(body []byte) []Instance {
	var page struct {
		Instances []struct {
			Namespace string      `json:"namespace"`
			Component string      `json:"component"`
			Endpoint  string      `json:"endpoint"`
			ID        json.Number `json:"instance_id"`
			Transport struct {
				TCP string `json:"tcp"`
			} `json:"transport"`
		} `json:"instances"`
	}
	if json.Unmarshal(body, &page) != nil {
		return nil
	}
	var all []Instance
	for _, i := range page.Instances {
		if id, err := strconv.ParseUint(i.ID.String(), 10, 64); err == nil && i.Endpoint == servingEndpoint {
			all = append(all, Instance{id, i.Namespace + "/" + i.Component, addressOf(i.Transport.TCP)})
		}
	}
	return all
}

// addressOf takes host:port from where an endpoint is, as 10.0.0.7:36177/bb775a/generate.
func addressOf(place string) string {
	address, _, _ := strings.Cut(place, "/")
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	return at.String()
}

// AddressesOf are the addresses of instances by their ids. One that several have names
// none of them.
func AddressesOf(all []Instance) map[uint64]string {
	by, owner := map[uint64]string{}, map[string]uint64{}
	for _, i := range all {
		if other, taken := owner[i.Address]; taken && other != i.ID {
			delete(by, other)
			continue
		}
		if owner[i.Address] = i.ID; i.Address != "" {
			by[i.ID] = i.Address
		}
	}
	return by
}
