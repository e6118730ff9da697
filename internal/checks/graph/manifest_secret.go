package graph

import (
	"encoding/base64"
	"maps"

	"aicr/internal/kube"
)

// tokenKey is what the token is called in its Secret.
const tokenKey = "token"

// secretManifest is the Secret of the token, without it.
func secretManifest(s *Settings) kube.Object {
	n := NamesOf(s.Run)
	return manifest("v1", "Secret", n.Namespace, n.Secret, s, PartModel, fields{"type": "Opaque", "immutable": true})
}

// WithToken is a Secret of Objects with its token in it: to be sent, and to be kept
// nowhere.
func WithToken(secret kube.Object, token Secret) kube.Object {
	o := maps.Clone(secret)
	o["data"] = fields{tokenKey: base64.StdEncoding.EncodeToString([]byte(token))}
	return o
}
