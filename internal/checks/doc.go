// Package checks runs what a plan says: it brings a target to where it can be
// loaded, has every worker answer, loads it episode by episode, and asks the judge
// after each whether that decides.
//
// Read Run (run.go) first: there is one path for a cluster, an endpoint that exists
// and a simulated fleet, which differ only in their Target. Endpoint (endpoint.go)
// is the one that is loaded over HTTP and observed by its metrics pages.
package checks
