package graph

// Secret is what must be written nowhere but into a Secret of the cluster.
type Secret string

const hidden = "***"

// String hides it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides it from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides it from every encoder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
