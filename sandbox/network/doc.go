// Package network is the private network of a sandbox: a network namespace in which
// every address of a pod and of a service is local, so that a pod is a process that
// binds its own address, and nothing of it reaches the host or the world.
//
// Two routes to lo do it (Isolate). Upon them stand the names (Names), the services
// (Proxy) and the one way in from the host (Forward). What services and endpoints there
// are is a Directory, made anew (by package services) whenever it changes; all else are
// functions of it.
package network
