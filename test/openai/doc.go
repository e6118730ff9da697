// Package conformance holds "aicr sim serve" against the official OpenAI client
// for Go. It is a module of its own, so that the product does not depend on that
// client, and it imports nothing of the product: it runs the real program.
//
// Read client_test.go first: it lists the rules. server_test.go builds, starts
// and interrupts the program; each rule has a server to itself.
package conformance
