// Package process keeps one process running that may be killed at any time, and lets
// none outlive the sandbox.
package process
