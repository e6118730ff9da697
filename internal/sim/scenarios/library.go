package scenarios

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"aicr/internal/spec"
)

//go:embed *.yaml
var files embed.FS

// Entry is a scenario of the library.
type Entry struct {
	Name  string // short, and the file's: s1
	Title string // says what it is, and works as a name too: healthy
	Line  string // what goes wrong, in a line
	Data  []byte // the document
}

// Names lists the short names in the order in which they are shown.
func Names() []string {
	return []string{
		"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10",
		"s11", "s12", "s13", "s14", "s15", "s16", "s17", "s18", "s19",
		"i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8",
		"small", "small-stall",
		"black-hole", "worker-leaves", "slow-fleet", "power-cap",
		"http-error", "stream-reset", "stream-truncated", "stream-error",
		"late-client", "telemetry-gap", "dra-stale",
	}
}

// All is the library, in the order of Names.
func All() []Entry {
	var all []Entry
	for _, name := range Names() {
		all = append(all, read(name))
	}
	return all
}

// Find finds a scenario by its short name or by its title.
func Find(name string) (Entry, bool) {
	for _, e := range All() {
		if name == e.Name || name == e.Title {
			return e, true
		}
	}
	return Entry{}, false
}

// read takes a file apart. The two lines that it looks for are in every file; the
// tests see to that.
func read(name string) Entry {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		panic(fmt.Sprintf("scenario %s has no file: %v", name, err)) // cannot be: the file is compiled in
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	_, rest, _ = bytes.Cut(rest, []byte("\nmetadata: {name: "))
	title, _, _ := bytes.Cut(rest, []byte("}"))
	return Entry{Name: name, Title: string(title), Line: strings.TrimPrefix(string(first), "# "), Data: data}
}

// Near is the name or title that was most likely meant, or "" when none comes
// close.
func Near(name string) string {
	var known []string
	for _, e := range All() {
		known = append(known, e.Name, e.Title)
	}
	near, _ := spec.Nearest(name, known)
	return near
}
