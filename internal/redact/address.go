package redact

import (
	"net/url"
	"slices"
	"strings"
)

// URL is an address without what may be secret in it: a user's name and password, the
// query, which some gateways want a key in, and the fragment. What is no address is
// given as Masked has it.
func URL(address string) string {
	rest, tail := address, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, tail = rest[:i], rest[i:i+1]+ellipsis
	}
	scheme, authority, ok := strings.Cut(rest, "://")
	if !ok {
		scheme, authority = "", rest
	} else {
		scheme += "://"
	}
	host, path := authority, ""
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		host, path = authority[:i], authority[i:]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = Hidden + host[i:]
	}
	return scheme + host + Masked(path) + tail
}

// plainParameters are of a query, and no secrets: to hide the model's name would hide it
// wherever it stands.
var plainParameters = []string{"model", "version", "api-version", "deployment", "deployment-id", "engine", "region", "stream", "timeout", "format"}

// InURL are the secrets that an address has in it: its user's name and password, its
// query as a whole, and the values of the query's parameters but those that everybody
// may know.
func InURL(address string) (values []string) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	before, _, _ := strings.Cut(address, "#")
	_, query, _ := strings.Cut(before, "?")
	values = append(values, query)
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if slices.Contains(plainParameters, strings.ToLower(strings.ReplaceAll(name, "_", "-"))) {
			continue
		}
		values = append(values, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			values = append(values, plain)
		}
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		password, _ := u.User.Password()
		values = append(values, password, u.User.Username(), u.User.String())
	}
	return values
}
