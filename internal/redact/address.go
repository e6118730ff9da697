package redact

import (
	"net/url"
	"slices"
	"strings"
)

// URL is an address without what may be secret in it: a user's name and password, the
// query, which some gateways want a key in, the fragment, and what looks like a key in the
// path. What is no address is given as Masked has it.
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
	return scheme + host + keyless(Masked(path)) + tail
}

// isPathKey says whether a part of a path looks like a key: letters and digits without a
// break, and many of them. Names of models and deployments have breaks.
func isPathKey(part string) bool {
	const least = 20
	if len(part) < least {
		return false
	}
	letters, digits := 0, 0
	for _, r := range part {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			letters++
		case r != '_':
			return false
		}
	}
	return letters >= 3 && digits >= 3
}

// keyless is a path without what looks like a key.
func keyless(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if isPathKey(part) {
			parts[i] = Hidden
		}
	}
	return strings.Join(parts, "/")
}

// plainParameters are of a query, and no secrets: to hide the model's name would hide it
// wherever it stands.
var plainParameters = []string{"model", "version", "api-version", "deployment", "deployment-id", "engine", "region", "stream", "timeout", "format"}

// InURL are the secrets that an address has in it: its user's name and password, its
// query and its fragment as a whole, and the values of their parameters but those that
// everybody may know, and what looks like a key in its path. It is for an address that
// cannot be parsed, too.
func InURL(address string) (values []string) {
	before, fragment, _ := strings.Cut(address, "#")
	before, query, _ := strings.Cut(before, "?")
	for _, part := range []string{query, fragment} {
		values = append(values, inParameters(part)...)
	}
	if _, rest, ok := strings.Cut(before, "://"); ok {
		before = rest
	}
	authority, path, _ := strings.Cut(before, "/")
	for part := range strings.SplitSeq(path, "/") {
		if isPathKey(part) {
			values = append(values, part)
		}
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return values
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	return append(values, withPlain(url.PathUnescape, authority[:at], password, user)...)
}

// inParameters are the secrets of a query. One without a name is one.
func inParameters(query string) (values []string) {
	values = append(values, query)
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, named := strings.Cut(pair, "=")
		switch {
		case !named:
			value = pair
		case slices.Contains(plainParameters, strings.ToLower(strings.ReplaceAll(name, "_", "-"))):
			continue
		}
		values = append(values, withPlain(url.QueryUnescape, value)...)
	}
	return values
}

// withPlain adds to words what they say where they are escaped.
func withPlain(unescape func(string) (string, error), words ...string) []string {
	for _, word := range slices.Clone(words) {
		if plain, err := unescape(word); err == nil && plain != word {
			words = append(words, plain)
		}
	}
	return words
}
