package graph

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// Who attaches without the token that a run was begun with makes no Secret without one: it
// is known whether there is one, and nobody reads it for that.
func TestNoSecretIsMadeWithoutItsToken(t *testing.T) {
	for name, c := range map[string]struct {
		secret Secret
		made   int // of what Deploy makes, in order, by who was killed
		cached bool
		needs  bool
	}{
		"before the Secret":                        {made: 2, needs: true},
		"after the Secret":                         {made: 3, needs: true}, // which nobody can know
		"after what follows it":                    {made: 4},
		"before the Secret, with a cache":          {made: 2, cached: true, needs: true},
		"after what follows it, with a cache":      {made: 4, cached: true},
		"before the Secret, and the token is here": {secret: "hf_secret", made: 2, needs: true},
		"after it, and the token is here":          {secret: "hf_secret", made: 3, needs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				s := k.Settings
				s.Token, k.Stage = true, StageDeploy
				if c.cached {
					s.Cache = &Cache{Size: "1Gi", Populate: Duration(time.Minute)}
				}
				m.deny["get secrets"], m.deny["list secrets"] = true, true
				made := 0
				for _, step := range Objects(s) {
					if step.Part == PartKept || made == c.made {
						continue
					}
					if _, err := m.Create(t.Context(), step.Resource, step.Object); err != nil {
						t.Fatal(err)
					}
					made++
				}
				m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
					go func() {
						time.Sleep(time.Second)
						switch r.Name {
						case "jobs":
							o["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
							m.put(r, o)
						case "dynamographdeployments":
							m.graphIs("successful", 1, 2)
						}
					}()
				}
				if needs, err := k.NeedsToken(t.Context(), m); needs != c.needs || err != nil {
					t.Errorf("needs it %v, %v", needs, err)
				}
				before := m.has(kube.Resource{Version: "v1", Name: "secrets"}, NamesOf(s.Run).Namespace, secretName)
				ready, err := Deploy(t.Context(), m, s, c.secret, Told{})
				if fails := c.needs && c.secret == ""; errors.Is(err, ErrNoToken) != fails || ready == fails {
					t.Errorf("ready %v, %v", ready, err)
				}
				after := m.has(kube.Resource{Version: "v1", Name: "secrets"}, NamesOf(s.Run).Namespace, secretName)
				if c.secret == "" && before != after || c.secret != "" && !after {
					t.Errorf("the Secret was there %v, and is %v", before, after)
				}
			})
		})
	}
	for name, set := range map[string]func(k *Kept, m *memoryAPI){
		"without a token": func(k *Kept, _ *memoryAPI) { k.Settings.Token = false },
		"after the start": func(k *Kept, _ *memoryAPI) { k.Stage = StageLoad },
		"judged":          func(k *Kept, _ *memoryAPI) { k.Stage = StageJudged },
	} {
		m, k := newMemory(), keptRun()
		k.Settings.Token, k.Stage = true, StageDeploy
		set(k, m)
		if needs, err := k.NeedsToken(t.Context(), m); needs || err != nil {
			t.Errorf("%s: needs it %v, %v", name, needs, err)
		}
	}
	m, k := newMemory(), keptRun()
	k.Settings.Token, k.Stage = true, StageDeploy
	m.deny["get resourceclaimtemplates"] = true
	if _, err := k.NeedsToken(t.Context(), m); !kube.IsForbidden(err) {
		t.Errorf("what may not be seen is taken for absent: %v", err)
	}
}
