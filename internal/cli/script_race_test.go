//go:build race

package cli

// raceWatched: the tests run under the race detector.
const raceWatched = true
