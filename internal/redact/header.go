package redact

import (
	"encoding/base64"
	"slices"
	"strings"
)

// plainHeaders are no secrets, whatever they are.
var plainHeaders = []string{"accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding", "content-type", "host", "user-agent"}

// InHeader are the secrets that a header has in it: its value, what follows the scheme of
// an authorization, the password of a basic one, and the values of cookies.
func InHeader(name, value string) (values []string) {
	if slices.Contains(plainHeaders, strings.ToLower(name)) {
		return nil
	}
	values = append(values, value)
	for field := range strings.FieldsSeq(value) {
		values = append(values, field)
		if _, cookie, ok := strings.Cut(strings.TrimSuffix(field, ";"), "="); ok {
			values = append(values, cookie)
		}
	}
	scheme, credentials, _ := strings.Cut(value, " ")
	if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials)); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(plain), ":")
		values = append(values, string(plain), password)
	}
	return values
}
