package http1

import "bytes"

// backendHeaders are those in which a proxy says which server behind it has answered, the most
// exact one last: LiteLLM's by itself, and those that nginx ($upstream_addr) and Envoy
// (%UPSTREAM_HOST%) are commonly told to add.
var backendHeaders = []string{"x-litellm-model-id", "x-upstream-host", "x-upstream-addr", "x-litellm-model-api-base"}

// BackendRank is how exactly a header names who has answered; 0: it does not.
func BackendRank(name []byte) int {
	for i, known := range backendHeaders {
		if fold(name, known) {
			return i + 1
		}
	}
	return 0
}

// BackendID is a number for a server, by its name or its address: host and port, without the
// scheme and the path. Of several, which were tried one after the other, it is the last.
// It is 0 of nothing.
func BackendID(value []byte) uint64 {
	if i := bytes.LastIndexByte(value, ','); i >= 0 {
		value = value[i+1:]
	}
	value = bytes.TrimSpace(value)
	if i := bytes.Index(value, []byte("://")); i >= 0 {
		value = value[i+3:]
	}
	if i := bytes.IndexByte(value, '/'); i >= 0 {
		value = value[:i]
	}
	if len(value) == 0 {
		return 0
	}
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	id := uint64(offset)
	for _, c := range value {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		id = (id ^ uint64(c)) * prime
	}
	return max(1, id)
}
