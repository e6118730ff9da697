// Package proof holds the judge against known truths: the scenarios of the
// simulator's library, which say what must be said of them.
//
// It plays hundreds of episodes, so it runs without the race detector; make proof
// does that, with three seeds, and make oracle with twenty.
package proof
