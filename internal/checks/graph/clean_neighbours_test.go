package graph

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// neighbour is a run of another team, as it is while what serves starts: kept, with its
// namespace and its graph, and with no rights yet that would say where it is kept.
func neighbour(m *memoryAPI, home string) *Settings {
	s := runSettings("20261116-030000-fedcba9876543210")
	s.Namespace = home
	m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": home}})
	kept := keptManifest(s)
	kept["metadata"].(map[string]any)["annotations"] = map[string]any{AnnotationAlive: time.Now().UTC().Format(time.RFC3339)}
	m.put(resConfigMaps, kept)
	m.put(resNamespaces, namespaceManifest(s))
	m.put(resGraphs("v1beta1"), graphManifest(s))
	return s
}

// Who has the roles that the program prints, and a Role in the namespace of their own team,
// may delete any namespace and cannot see that somebody leads a run of another team.
func TestCleanSparesARunOfAnotherTeam(t *testing.T) {
	type look struct {
		may  []string // namespaces that may be looked into, besides those of graphs
		wide bool     // jobs in all of them, as the ClusterRole has it
	}
	ours := look{[]string{"team-b"}, true}
	for name, c := range map[string]struct {
		look    look
		set     func(m *memoryAPI, s *Settings)
		named   bool
		gone    bool // of the neighbour
		alive   bool
		why, in string
		fails   bool
	}{
		"its namespace is closed": {look: ours, why: "it is not known whether somebody leads it: you may not look into namespace team-a", in: "team-a"},
		"a program before this one made it": {look: ours, why: "it is not known whether somebody leads it: nothing says where it is kept, and you may not look into all namespaces",
			set: func(m *memoryAPI, s *Settings) {
				o := namespaceManifest(s)
				delete(o["metadata"].(map[string]any), "annotations")
				m.put(resNamespaces, o)
			}},
		"such a one, and its trial says where": {look: ours, why: "it is not known whether somebody leads it: you may not look into namespace team-a", in: "team-a",
			set: func(m *memoryAPI, s *Settings) {
				o := namespaceManifest(s)
				delete(o["metadata"].(map[string]any), "annotations")
				m.put(resNamespaces, o)
				m.put(resJobs, trialManifest(s))
			}},
		"its Jobs may not be looked for": {look: look{[]string{"team-a", "team-b"}, false}, alive: true, why: "a command led it 0s ago", in: "team-a"},
		"its namespace is open":          {look: look{[]string{"team-a", "team-b"}, true}, alive: true, why: "a command led it 0s ago", in: "team-a"},
		"its namespace is open, and nobody leads it": {look: look{[]string{"team-a", "team-b"}, true}, gone: true,
			set: func(m *memoryAPI, s *Settings) { m.put(resConfigMaps, keptManifest(s)) }},
		"its namespace is open, and it is not kept there": {look: look{[]string{"team-a", "team-b"}, true}, gone: true,
			set: func(m *memoryAPI, s *Settings) { m.drop(resConfigMaps, "team-a", NamesOf(s.Run).Kept) }},
		"its namespace is gone": {look: ours, gone: true, set: func(m *memoryAPI, s *Settings) {
			m.drop(resConfigMaps, "team-a", NamesOf(s.Run).Kept)
			m.drop(resNamespaces, "", "team-a")
		}},
		"it is named":     {look: ours, named: true, gone: true},
		"nothing is open": {look: look{nil, true}, fails: true},
		"all may be seen": {look: look{[]string{"", "team-b"}, true}, alive: true, why: "a command led it 0s ago", in: "team-a"},
		"its load is there": {look: ours, alive: true, why: "its load is running", in: "team-a", set: func(m *memoryAPI, s *Settings) {
			job := loadManifest(s)
			job["status"] = map[string]any{"active": 1.0}
			m.put(resJobs, job)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				s := neighbour(m, "team-a")
				mine := runSettings(memoryRun) // which was killed
				mine.Namespace = "team-b"
				whole(m, mine)
				if c.set != nil {
					c.set(m, s)
				}
				n := NamesOf(s.Run)
				api := fenced{memoryAPI: m, may: append(c.look.may, n.Namespace, NamesOf(mine.Run).Namespace)}
				if c.look.wide {
					api.wide = []kube.Resource{resJobs}
				}
				run := ""
				if c.named {
					run = s.Run
				}
				var spared []Spared
				_, left, err := Clean(t.Context(), api, "team-b", run, false, Told{Spared: func(s Spared) { spared = append(spared, s) }})
				if (err != nil) != c.fails || !c.named && len(left) > 0 {
					t.Fatalf("%v, left %v", err, left)
				}
				if gone := !m.has(resNamespaces, "", n.Namespace); gone != c.gone {
					t.Errorf("gone %v: %v", gone, m.names())
				}
				if !c.gone && !m.has(resGraphs("v1beta1"), n.Namespace, n.Graph) {
					t.Error("its graph is gone")
				}
				if gone := !m.has(resNamespaces, "", NamesOf(mine.Run).Namespace); gone != (!c.named && !c.fails) {
					t.Errorf("what was left of the own run is gone: %v", gone)
				}
				var want []Spared
				if c.why != "" {
					want = []Spared{{Run: s.Run, Namespace: c.in, Alive: c.alive, Why: c.why}}
				}
				if !slices.Equal(spared, want) {
					t.Errorf("spared %+v, want %+v", spared, want)
				}
				told := slices.ContainsFunc(left, func(l Left) bool {
					return l.Namespace == "team-a" && strings.Contains(l.Why, "could not be looked for")
				})
				if c.named && !told {
					t.Errorf("it is not told that team-a could not be looked into: %v", left)
				}
			})
		})
	}
}

// All that a run makes outside of a namespace says where the run is kept.
func TestWhatIsInNoNamespaceSaysWhereItsRunIsKept(t *testing.T) {
	s := runSettings(memoryRun)
	s.Namespace = "mine"
	for _, step := range Objects(s) {
		if o := step.Object; o.Namespace() == "" && o.Labels()[LabelRun] != "" && o.Annotations()[AnnotationHome] != "mine" {
			t.Errorf("%s %s: %v", o.Text("kind"), o.Name(), o.Annotations())
		}
	}
}
