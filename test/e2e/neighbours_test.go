//go:build linux

package e2e_test

import (
	"encoding/json"
	"syscall"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// Two teams have a namespace each and the roles that the program prints for it: both may
// delete any namespace of a run, and neither sees into the other's. What serves of the one
// starts, and nothing says that it is led but what is kept of it; the other cleans.
func TestCleanSparesTheRunOfAnotherTeam(t *testing.T) {
	t.Parallel()
	c := startCluster(t, many)
	teams := map[string]string{}
	for _, team := range []string{"team-a", "team-b"} {
		c.prepare(t, graph.UserRoles(team))
		for _, o := range userRoles(t, graph.UserRoles(team)) {
			var rules []any
			for _, rule := range o.List("rules") {
				rules = append(rules, map[string]any(rule))
			}
			c.bind(t, team, o.Text("kind"), o.Namespace(), rules)
		}
		teams[team] = c.user(t, team)
		var o *outcome
		err := eventually(t.Context(), func() (bool, error) { // the server hears of roles after they were written
			o = finished(t, c.command(teams[team], withoutCache, append([]string{"validate", "--dry-run", "--namespace", team}, tiny("gpu-0")...)...))
			return o.code == 0, nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, o)
		}
	}
	before := c.asItIs(t)

	a := c.ledWith(t, []string{"KUBECONFIG=" + teams["team-a"]}, tiny("gpu-0", "--namespace", "team-a")...)
	n := graph.Names{}
	if !awaited(t, a, "its graph", func() bool {
		n = graph.NamesOf(a.id())
		return a.id() != "" && c.standing(t, graphsKind, n.Namespace, n.Graph) != nil
	}) {
		t.Fatalf("it has made no graph\n%s", a.stderr.String())
	}
	a.send(syscall.SIGSTOP) // it gets no further, and is led
	o := finished(t, c.command(teams["team-b"], nil, "clean", "--namespace", "team-b", "-o", "json"))
	stands := c.standing(t, graphsKind, n.Namespace, n.Graph)
	a.send(syscall.SIGCONT)
	var cleaned struct {
		Removed []graph.Removed
		Left    []graph.Left
		Spared  []graph.Spared
	}
	if err := json.Unmarshal([]byte(o.stdout), &cleaned); err != nil || o.code != 0 {
		t.Errorf("%v\n%s", err, o)
	}
	if s := cleaned.Spared; len(s) != 1 || s[0].Run != a.id() || !s[0].Alive || s[0].Namespace != "team-a" || len(cleaned.Removed)+len(cleaned.Left) > 0 {
		t.Errorf("the other team's run is not spared as one that its reservation shows to be led\n%s", o)
	}
	if stands == nil || stands.Deleting() {
		t.Errorf("the other team's graph was deleted\n%s", o)
	}
	c.cameTo(t, a.end(t), "", spec.Pass, 0)
	c.settled(t, before)
}
