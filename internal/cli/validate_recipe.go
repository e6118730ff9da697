package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"aicr/internal/spec"
	"aicr/recipes"
)

// recipeFile is a recipe and where it was read from.
type recipeFile struct {
	*spec.Recipe
	path string
}

// library is every recipe, mixin and check that there is: those of the program, and
// those of a folder of the user's.
func (a *app) library(dir string) (*recipes.Library, error) {
	l, err := recipes.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the library: %w", err)
	}
	if dir == "" {
		return l, nil
	}
	if info, err := os.Stat(dir); err != nil {
		return l, misuse("--data names a folder with overlays, mixins or a catalog", "reading --data: %w", err)
	} else if !info.IsDir() {
		return l, misuse("--data names a folder with overlays, mixins or a catalog", "reading --data: %s is no folder", dir)
	}
	if err := l.Add(dir, plainFiles{os.DirFS(dir)}); err != nil {
		return l, badFolder(err)
	}
	return l, nil
}

// plainFiles are the files of a folder that end: a pipe or a device among them is an
// error, where reading it would wait for ever.
type plainFiles struct{ folder fs.FS }

func (p plainFiles) Open(name string) (fs.File, error) {
	if info, err := fs.Stat(p.folder, name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no plain file")}
	}
	return p.folder.Open(name)
}

// runFiles are those of a run's folder.
func runFiles(dir string) fs.FS { return plainFiles{os.DirFS(dir)} }

// badFolder says what is wrong with the files of a folder.
func badFolder(err error) error {
	var wrong []error
	for _, p := range problems(err, Misused, "") {
		if file, ok := errors.AsType[*spec.BadFile](p.Cause); ok {
			wrong = append(wrong, mistakes(file.File, file.Mistakes))
			continue
		}
		wrong = append(wrong, misuse(p.Hint, "%w", p.Cause))
	}
	return errors.Join(wrong...)
}

// readRecipe reads a recipe from a file, or takes an overlay of the library by its name,
// and completes it by what it is based on.
func (a *app) readRecipe(asked string, l *recipes.Library) (*recipeFile, error) {
	if asked == "" {
		return nil, nil
	}
	made, err := a.namedRecipe(asked, l)
	if err != nil {
		return nil, err
	}
	if o, ok := l.Overlay(asked); ok {
		asked = o.File
	}
	return &recipeFile{made.Recipe, asked}, nil
}

// place is where the recipe says a thing: the overlay and its file, or the file that
// was named. A group is a phase, or recipes.OfVerdict.
func (r *recipeFile) place(group, name string) string {
	if o, ok := r.OriginOf(group, name); ok {
		return o.String()
	}
	return r.path
}

// inputPlace is where it says an input of the benchmark.
func (r *recipeFile) inputPlace(name string) string { return r.place(spec.PhasePerformance, name) }

// verdictPlace is where it says how it is judged.
func (r *recipeFile) verdictPlace(name string) string { return r.place(recipes.OfVerdict, name) }

// offers is what the recipe says of the operating point: its own input, else the
// point at which its reference was measured. The published gate knows the first
// alone.
func (r *recipeFile) offers(classic bool) (o pointOffers) {
	if r == nil {
		return o
	}
	from := func(v int, place string) offer[int] { return offer[int]{&v, fromRecipe, place} }
	_, own := r.Input(spec.InputConcurrency)
	if n, ok := r.ConcurrencyPerGPU(); ok && (own || !classic) {
		place := r.verdictPlace("reference")
		if own {
			place = r.inputPlace(spec.InputConcurrency)
		}
		o.perGPU = from(n, place)
	}
	if classic {
		return o
	}
	if ref := r.Verdict().Reference; ref != nil {
		o.input, o.output = from(ref.InputTokens, r.verdictPlace("reference")), from(ref.OutputTokens, r.verdictPlace("reference"))
		if entries := int64(ref.Prompts); entries > 0 {
			o.entries = offer[int64]{&entries, fromRecipe, r.verdictPlace("reference")}
		}
	}
	if s, ok := r.Verdict().Thresholds["episodeS"]; ok {
		d := seconds(inSeconds(s))
		o.episode = offer[seconds]{&d, fromRecipe, r.verdictPlace("episodeS")}
	}
	return o
}

// perGPU says whether what the recipe wants hangs on how many GPUs there are.
func (r *recipeFile) perGPU() bool {
	if r == nil {
		return false
	}
	one, two := r.Figures(1), r.Figures(2)
	for i := range one {
		if one[i].Threshold != two[i].Threshold {
			return true
		}
	}
	return r.Verdict().Reference != nil
}

// reference is the recipe's reference for a fleet at a point, or why it does not
// hold there.
func (r *recipeFile) reference(p spec.OperatingPoint) (*spec.ReferenceFigure, string) {
	ref := r.Verdict().Reference
	perGPU := p.Concurrency / p.GPUs()
	if perGPU != ref.ConcurrencyPerGPU || p.InputTokens != ref.InputTokens || p.OutputTokens != ref.OutputTokens {
		return nil, fmt.Sprintf("it was measured with %d in flight a GPU and %d/%d tokens, and this run has %d and %d/%d",
			ref.ConcurrencyPerGPU, ref.InputTokens, ref.OutputTokens, perGPU, p.InputTokens, p.OutputTokens)
	}
	if measured := spec.Prompts(ref.Prompts).String(); p.Prompts != measured {
		return nil, fmt.Sprintf("it was measured with %s, and this run has %s", promptWords(measured), promptWords(p.Prompts))
	}
	f := &spec.ReferenceFigure{Throughput: ref.Throughput, Dispersion: ref.Dispersion, N: ref.N, From: r.path}
	if gpus := p.GPUs(); gpus != ref.GPUs {
		f.Throughput *= float64(gpus) / float64(ref.GPUs)
		f.From = fmt.Sprintf("%s, of %d GPUs, scaled to %d", r.path, ref.GPUs, gpus)
	}
	return f, ""
}

// promptWords says which prompts are sent, by what a point calls them.
func promptWords(prompts string) string {
	if prompts == spec.Prompts(0).String() {
		return "prompts that are unique"
	}
	return prompts + " prompts that are recycled"
}
