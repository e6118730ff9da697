// Package recipes is what this product knows of platforms: overlays with what is wanted
// of each, the catalog of checks, and the versions that go together.
package recipes

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"aicr/internal/spec"
)

//go:embed overlays mixins catalog.yaml
var embedded embed.FS

// BuiltIn stands for the folder of what is embedded, in errors and origins.
const BuiltIn = "builtin:"

// Library is every overlay, mixin and check that is known: those that are embedded, and
// those that an organisation adds.
type Library struct {
	Overlays []Overlay // by name
	Mixins   []Overlay // by name
	Catalog  *spec.Catalog

	added int // how many folders
}

// Overlay is a recipe's layer and the file that it is from.
type Overlay struct {
	*spec.Recipe
	File string

	text   []byte
	folder int // which one was added; the later prevail
}

// Layer is a recipe that a user has in a file, with its text, by which errors have lines.
func Layer(r *spec.Recipe, file string, text []byte) Overlay {
	return Overlay{Recipe: r, File: file, text: text}
}

// line is where the file says a thing.
func (o Overlay) line(path string) int { return spec.LineOf(o.text, path) }

// wrongAt is one thing that is wrong with an overlay.
func (o Overlay) wrongAt(path, hint, format string, args ...any) error {
	return &spec.BadFile{File: o.File, Mistakes: spec.Mistakes{{Path: path, Line: o.line(path), Column: 1, Text: fmt.Sprintf(format, args...), Hint: hint}}}
}

// Load reads the embedded library.
func Load() (*Library, error) {
	l := &Library{Catalog: &spec.Catalog{}}
	if err := l.Add(BuiltIn, embedded); err != nil {
		return nil, fmt.Errorf("the embedded recipes: %w", err)
	}
	return l, nil
}

// Add adds the overlays, mixins and catalog of a folder; where names agree, what is
// added prevails. Dir names it in errors and origins. The error joins a spec.BadFile for
// each file that something is wrong with; then nothing was added.
func (l *Library) Add(dir string, files fs.FS) error {
	names, err := documents(files)
	if err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no overlay, mixin or catalog: they are overlays/*.yaml, mixins/*.yaml and catalog.yaml", dir)
	}
	grown := &Library{Overlays: slices.Clone(l.Overlays), Mixins: slices.Clone(l.Mixins), Catalog: l.Catalog, added: l.added + 1}
	var wrong []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("reading %s: %w", inFolder(dir, name), err))
			continue
		}
		if err := grown.read(inFolder(dir, name), text, path.Base(name) == catalogFile); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) == 0 {
		wrong = grown.loose()
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	*l = *grown
	return nil
}

// inFolder names a file of a folder, as the user named the folder.
func inFolder(dir, name string) string {
	if dir == BuiltIn {
		return dir + name
	}
	return path.Join(dir, name)
}

const catalogFile = "catalog.yaml"

// documents lists the files of a folder that are read, in order. Overlays and mixins may
// be in folders of their own below; a folder without overlays/ may have them in itself.
// What else there is, such as the components and the registry of upstream, is passed over.
func documents(files fs.FS) ([]string, error) {
	var all []string
	for _, folder := range []string{"overlays", "mixins"} {
		err := fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, err error) error {
			if ext := path.Ext(name); err == nil && !entry.IsDir() && (ext == ".yaml" || ext == ".yml") {
				all = append(all, name)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	patterns := []string{"validators/" + catalogFile, catalogFile}
	if _, err := fs.Stat(files, "overlays"); errors.Is(err, fs.ErrNotExist) {
		patterns = append(patterns, "*.yaml", "*.yml")
	} else if err != nil {
		return nil, err
	}
	if _, err := fs.ReadDir(files, "."); err != nil {
		return nil, err
	}
	for _, pattern := range patterns {
		found, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if name != "registry.yaml" && name != "versions.yaml" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// read takes one document in.
func (l *Library) read(file string, text []byte, isCatalog bool) error {
	if isCatalog {
		c, err := spec.DecodeCatalog(text)
		if err != nil {
			return mistaken(file, err)
		}
		l.Catalog = l.Catalog.Merge(c)
		return nil
	}
	r, err := spec.DecodeRecipe(text)
	if err != nil {
		return mistaken(file, err)
	}
	o := Overlay{Recipe: r, File: file, text: text, folder: l.added}
	switch {
	case r.Whole():
		return o.wrongAt("kind", "give it to 'aicr validate --recipe' as it is", "a whole recipe is no layer of others")
	case r.Kind == spec.RecipeMixinKind:
		return o.into(&l.Mixins)
	}
	return o.into(&l.Overlays)
}

// into puts a layer among the others, in the place of one of its name from another folder.
func (o Overlay) into(all *[]Overlay) error {
	i, there := slices.BinarySearchFunc(*all, o.Name, func(x Overlay, name string) int { return strings.Compare(x.Name, name) })
	switch {
	case !there:
		*all = slices.Insert(*all, i, o)
	case (*all)[i].folder == o.folder:
		earlier := (*all)[i]
		return o.wrongAt("metadata.name", fmt.Sprintf("it is at %s:%d already", earlier.File, earlier.line("metadata.name")), "%s is there twice", o.Name)
	default:
		(*all)[i] = o
	}
	return nil
}

func mistaken(file string, err error) error {
	all, ok := errors.AsType[spec.Mistakes](err)
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &spec.BadFile{File: file, Mistakes: all}
}

// loose finds the layers that name others which are not there, or themselves in a circle.
func (l *Library) loose() (wrong []error) {
	for _, o := range l.Overlays {
		wrong = append(wrong, l.looseLayer(o)...)
	}
	if len(wrong) > 0 {
		return wrong
	}
	for _, o := range l.Overlays {
		if circle := l.circle(o); circle != "" {
			wrong = append(wrong, o.wrongAt("spec.base", "an overlay of the same name replaces the one that is built in; to extend that one, give yours a name of its own", "the bases go in a circle: %s", circle))
		}
	}
	return wrong
}

// looseLayer finds what a layer names and the library does not have.
func (l *Library) looseLayer(o Overlay) (wrong []error) {
	if o.Base != "" {
		if _, ok := l.Overlay(o.Base); !ok {
			wrong = append(wrong, o.wrongAt("spec.base", closest(o.Base, names(l.Overlays), "'aicr recipe --list' shows those that there are, and --data DIR adds those of a folder"), "there is no overlay %q", o.Base))
		}
	}
	for i, m := range o.Mixins {
		if _, ok := find(l.Mixins, m); !ok {
			wrong = append(wrong, o.wrongAt(fmt.Sprintf("spec.mixins[%d]", i), closest(m, names(l.Mixins), "one of "+strings.Join(names(l.Mixins), ", ")+", or of a folder that --data adds"), "there is no mixin %q", m))
		}
	}
	return wrong
}

// circle is the way from an overlay by its bases to itself, or "".
func (l *Library) circle(o Overlay) string {
	way := []string{o.Name}
	for below, ok := l.below(o); ok; below, ok = l.below(below) {
		way = append(way, below.Name)
		if below.Name == o.Name {
			return strings.Join(way, " -> ")
		}
		if len(way) > len(l.Overlays) {
			break // into another's circle, which that one tells
		}
	}
	return ""
}

func closest(name string, known []string, otherwise string) string {
	if near, ok := spec.Nearest(name, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise
}

func names(all []Overlay) []string {
	list := make([]string, len(all))
	for i, o := range all {
		list[i] = o.Name
	}
	return list
}

func find(all []Overlay, name string) (Overlay, bool) {
	if i := slices.IndexFunc(all, func(o Overlay) bool { return o.Name == name }); i >= 0 {
		return all[i], true
	}
	return Overlay{}, false
}

// Overlay finds an overlay by its name.
func (l *Library) Overlay(name string) (Overlay, bool) { return find(l.Overlays, name) }

// Names lists the overlays.
func (l *Library) Names() []string { return names(l.Overlays) }
