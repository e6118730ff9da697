// Package arch keeps the law of the house: which room may import which, who
// may touch the operating system, and that every package introduces itself.
// It has no code of its own; read the table in law_test.go, and
// docs/architecture.md for the reasons.
package arch
