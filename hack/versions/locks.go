package main

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"

	"aicr/internal/spec"
	"aicr/recipes"
)

// checkLocks holds the lock files against the pins.
func checkLocks(root string, pins *spec.Versions) []finding {
	var all []finding
	for i, tool := range pins.Tools {
		at := pins.Line(fmt.Sprintf("tools[%d].locked", i))
		for _, name := range tool.Locked {
			read := lockReader(name)
			if read == nil {
				all = append(all, finding{recipes.VersionsFile, at, fmt.Sprintf("%s is no lock file that can be read", name), "go.mod, requirements.in, requirements.txt, package.json and package-lock.json are"})
				continue
			}
			content, err := readFile(root, name)
			if err != nil {
				all = append(all, finding{recipes.VersionsFile, at, fmt.Sprintf("the lock file of %s: %v", tool.Name, err), ""})
				continue
			}
			switch locked := read(content, tool.Name); {
			case locked == "":
				all = append(all, finding{name, 1, fmt.Sprintf("there is no %s, which is pinned to %s", tool.Name, tool.Version), "take the file out of locked in " + recipes.VersionsFile})
			case locked != tool.Version:
				all = append(all, finding{name, lineOf(content, locked), fmt.Sprintf("%s is locked to %s and pinned to %s", tool.Name, locked, tool.Version), "bump both: the lock, and " + recipes.VersionsFile})
			}
		}
	}
	return all
}

// lockReader finds the version of a package in a lock file, by the file's name; nil for
// a file that is none.
func lockReader(name string) func(content []byte, pkg string) string {
	switch path.Base(name) {
	case "go.mod":
		return func(content []byte, pkg string) string {
			return first(content, `(?m)^(?:\s*|require\s+)`+regexp.QuoteMeta(pkg)+`\s+(\S+)`)
		}
	case "requirements.txt", "requirements.in":
		return func(content []byte, pkg string) string {
			return first(content, `(?m)^`+regexp.QuoteMeta(pkg)+`==([^\s;\\]+)`)
		}
	case "package.json":
		return func(content []byte, pkg string) string {
			var file struct{ Dependencies, DevDependencies map[string]string }
			if json.Unmarshal(content, &file) != nil {
				return ""
			}
			if v := file.Dependencies[pkg]; v != "" {
				return v
			}
			return file.DevDependencies[pkg]
		}
	case "package-lock.json":
		return func(content []byte, pkg string) string {
			var file struct {
				Packages map[string]struct{ Version string }
			}
			if json.Unmarshal(content, &file) != nil {
				return ""
			}
			return file.Packages["node_modules/"+pkg].Version
		}
	}
	return nil
}

func first(content []byte, pattern string) string {
	if m := regexp.MustCompile(pattern).FindSubmatch(content); m != nil {
		return string(m[1])
	}
	return ""
}
