package observe

import (
	"cmp"
	"slices"
)

// server is how one kind of inference server tells of its workers: which of a sample's
// values it tells, under which names. To add one, write its file with its table, its line
// in servers, a page as its test, and its section in docs/metrics.md, which a test
// compares.
//
// A counter that moves when a request ends is no sign of life: it stands still for as long
// as one request takes. Tokens that are counted so are ended_tokens, and neither
// generated_tokens nor prompt_tokens.
type server struct {
	name   string // as people know it
	prefix string // what the names of its metrics begin with
	page   string // the page that it is tested with, in testdata
	// sign is what a page must have to be its own, where its other names may be anybody's.
	sign string
	// engine is the label that tells the engines on one page apart; "": there is only one.
	engine string
	values []value
	// firsts and gaps are the counts that tokens are derived from where no counter has them:
	// the first of each request, and each gap after.
	firsts, gaps value
	// estimate is what else tokens are derived from.
	estimate *estimate
	// begins says that the counter of failures begins with the first one.
	begins bool
	// load is the path that tells what its API server has in flight, where that is on.
	load string
}

// estimate is a count of tokens as they are made, from what a server tells beside.
type estimate struct {
	of  []value
	how string
	// made is the count; at least what it was before, since it is made of rounded values.
	made func(p page, before float64) *float64
}

// servers lists them. Where two tell of the same value, the first does: a runtime around
// an engine knows of more than the engine does.
var servers = []server{dynamo, vllm, sglang, trtllm, triton, tgi, llamacpp, nim}

// all are its values, and what others are derived from.
func (s *server) all() []value {
	all := append(slices.Clone(s.values), s.firsts, s.gaps)
	if s.estimate != nil {
		all = append(all, s.estimate.of...)
	}
	return all
}

// on says whether a page is this server's.
func (s *server) on(p page) bool {
	if s.sign != "" && len(p[s.sign]) == 0 {
		return false
	}
	told := func(v value) bool {
		return slices.ContainsFunc(v.names, func(name string) bool { return len(p[name]) > 0 })
	}
	return slices.ContainsFunc(s.values, told) || told(s.firsts) || told(s.gaps)
}

// value is the one of a field, if the server tells it.
func (s *server) value(field string) (v value, ok bool) {
	i := slices.IndexFunc(s.values, func(v value) bool { return v.field == field })
	if i < 0 {
		return value{}, false
	}
	return s.values[i], true
}

// engineOf is the engine that a series is of; "": of all that the page tells of.
func (s *server) engineOf(one series) string {
	if s.engine == "" {
		return ""
	}
	return one.labels[s.engine]
}

// families words whose pages are known.
func families() string {
	var all []string
	for i := range servers {
		all = append(all, servers[i].name+" ("+cmp.Or(servers[i].prefix, servers[i].sign)+")")
	}
	return wordy(all, "and")
}

// only is one label as value has them.
func only(label, is string) map[string]string { return map[string]string{label: is} }

// among takes the sum of the series whose label has one of these values, and of those
// without that label.
func among(label string, values ...string) func([]series) *float64 {
	return func(all []series) *float64 {
		var found []series
		for _, s := range all {
			if v, labelled := s.labels[label]; !labelled || slices.Contains(values, v) {
				found = append(found, s)
			}
		}
		return sum(found)
	}
}
