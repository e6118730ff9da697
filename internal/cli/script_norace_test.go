//go:build !race

package cli

const raceWatched = false
