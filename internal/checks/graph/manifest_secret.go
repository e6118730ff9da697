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
	n := s.Names()
	o := manifest("v1", "Secret", n.Namespace, n.Secret, s, PartModel, fields{"type": "Opaque", "immutable": true})
	if s.Namespaced {
		o["metadata"].(fields)["ownerReferences"] = []any{ownedByKept(s)}
	}
	return o
}

// ownedByKept has the cluster delete an object when the run is no longer kept: with a right to
// delete Secrets by name, a run could delete those of others.
func ownedByKept(s *Settings) fields {
	return fields{"apiVersion": "v1", "kind": "ConfigMap", "name": s.Names().Kept, "uid": s.KeptUID}
}

// WithToken is a Secret of Objects with its token in it: to be sent, and to be kept
// nowhere.
func WithToken(secret kube.Object, token Secret) kube.Object {
	o := maps.Clone(secret)
	o["data"] = fields{tokenKey: base64.StdEncoding.EncodeToString([]byte(token))}
	return o
}
