package cli

import (
	"fmt"
	"os"

	"aicr/internal/spec"
)

// recipeFile is a recipe and where it was read from.
type recipeFile struct {
	*spec.Recipe
	path string
}

func readRecipe(path string) (*recipeFile, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, misuse("aicr knee --write FILE makes one; docs/thresholds.md shows another", "reading the recipe: %w", err)
	}
	r, err := spec.DecodeRecipe(data)
	if err != nil {
		return nil, mistakes(path, err)
	}
	return &recipeFile{r, path}, nil
}

// offers is what the recipe says of the operating point: its own input, else the
// point at which its reference was measured. The published gate knows the first
// alone.
func (r *recipeFile) offers(classic bool) (o pointOffers) {
	if r == nil {
		return o
	}
	from := func(v int) offer[int] { return offer[int]{&v, fromRecipe, r.path} }
	_, own := r.Input(spec.InputConcurrency)
	if n, ok := r.ConcurrencyPerGPU(); ok && (own || !classic) {
		o.perGPU = from(n)
	}
	if classic {
		return o
	}
	if ref := r.Verdict.Reference; ref != nil {
		o.input, o.output = from(ref.InputTokens), from(ref.OutputTokens)
	}
	if s, ok := r.Verdict.Thresholds["episodeS"]; ok {
		d := seconds(inSeconds(s))
		o.episode = offer[seconds]{&d, fromRecipe, r.path}
	}
	return o
}

// perGPU says whether what the recipe wants hangs on how many GPUs there are.
func (r *recipeFile) perGPU() bool {
	if r == nil {
		return false
	}
	one, two := r.Constraints(1), r.Constraints(2)
	for i := range one {
		if one[i].Threshold != two[i].Threshold {
			return true
		}
	}
	return r.Verdict.Reference != nil
}

// reference is the recipe's reference for a fleet at a point, or why it does not
// hold there.
func (r *recipeFile) reference(p spec.OperatingPoint) (*spec.ReferenceFigure, string) {
	ref := r.Verdict.Reference
	perGPU := p.Concurrency / max(1, p.Workers)
	if perGPU != ref.ConcurrencyPerGPU || p.InputTokens != ref.InputTokens || p.OutputTokens != ref.OutputTokens {
		return nil, fmt.Sprintf("it was measured with %d in flight a GPU and %d/%d tokens, and this run has %d and %d/%d",
			ref.ConcurrencyPerGPU, ref.InputTokens, ref.OutputTokens, perGPU, p.InputTokens, p.OutputTokens)
	}
	f := &spec.ReferenceFigure{Throughput: ref.Throughput, Dispersion: ref.Dispersion, N: ref.N, From: r.path}
	if p.Workers != ref.GPUs {
		f.Throughput *= float64(p.Workers) / float64(ref.GPUs)
		f.From = fmt.Sprintf("%s, of %d GPUs, scaled to %d", r.path, ref.GPUs, p.Workers)
	}
	return f, ""
}
