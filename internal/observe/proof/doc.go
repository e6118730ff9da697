// Package proof holds what the observer promises to cost, measured on the whole
// program against a fleet of real pages: 64 workers and 64 GPUs once a second in
// at most a twentieth of a core and 60 MB.
//
// It measures CPU time, so it runs alone and without the race detector; make
// proof does that.
package proof
