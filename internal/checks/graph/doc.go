// Package graph is the life of one Dynamo graph on a cluster that belongs to somebody
// else: what is asked before anything is written, which node it goes to, what is made
// and in which order, what is waited for, what is kept when it fails, and how all of it
// goes away again.
//
// Read Run (run.go) first. Every step looks before it acts, so that a run that was
// killed anywhere is picked up by the same code that began it. What is made is made by
// pure functions (manifest_*.go) and named by Names (names.go); what it takes in rights
// is one table (rights.go), from which the roles, the guards and the documentation are
// made. Why a start has failed is a list of small rules (cause_*.go), one a file.
package graph
