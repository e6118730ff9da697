// Package redact makes text of others fit to be shown and kept: it masks secrets and
// takes out what would steer a terminal or the log of a workflow.
//
// clean.go is the one cleaner: every foreign text goes through it on its way to a
// stream, a report or a record, and json.go its sibling for documents. patterns.go masks
// what looks like a secret, mask.go and loose.go what is known to be one, in every form in
// which a server may repeat it, and address.go takes secrets out of URLs. A text is masked
// before it is cut: what is left of a secret at a cut would be its beginning.
//
// It is a leaf: nothing here knows what the text is of.
package redact
