// Package proof holds the report against the size that it must stand: five million
// requests of 128 workers in fifty minutes, told by the program as it is used.
//
// It measures memory and time, so it runs alone and without the race detector; make
// proof does that.
package proof
