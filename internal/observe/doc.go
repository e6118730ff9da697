// Package observe is the second instrument of a measurement: what the servers
// themselves say under load. It asks workers, frontends, GPUs and nodes about
// once a second and turns their answers into one stream of spec.Sample, all
// stamped by one monotonic clock.
//
// Each kind of source is a file: it knows the words of one exporter and turns a
// page of it into samples. To add one, write that file with a recorded real page
// as its test, name its metrics in names.go, and add a line to sources in
// source.go; a worker's are in server_<name>.go, a file for each inference server.
// A Poll asks a source at its times; a Follow listens to one that speaks by itself.
// Nothing here touches the system: files, commands and clients are given.
//
// A source that does not answer in time is a gap with a reason, and a value that
// it does not offer is "not measured" with a reason: neither is ever a zero, nor
// what was said before.
package observe
