package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// trial is what is known of the load's image, from the pod that runs it once while what
// serves starts. It is asked for what would befall the load's pod for certain, and for
// nothing else: where that pod finds no place, or is put out of it, the load's may fare
// better minutes later.
type trial struct {
	seen causeLedger
	over bool
}

// trialLasts is how long the load's image has to be known as none before that ends a run.
// A mirror that lacks one image may lack those of what serves as well, and then it is
// these that are told, whichever pod was the first to be refused.
const trialLasts = 30 * time.Second

// look gives why the load could not begin; none: nothing is known against it.
func (t *trial) look(ctx context.Context, api API, s *Settings) []Cause {
	if t == nil || t.over {
		return nil
	}
	l, err := lookAtTrial(ctx, api, s)
	if err != nil || l.pod == nil {
		return nil // the load's own start will tell
	}
	var found []Cause
	if l.ended() {
		found = l.notOurs()
		t.over = len(found) == 0
	} else {
		found = slices.DeleteFunc(l.causes(ctx, api), func(c Cause) bool { return c.rule != "image" && c.rule != "container" })
	}
	for i := range found {
		found[i].After = max(found[i].After, trialLasts)
	}
	return t.seen.settled(found, time.Now())
}

// lookAtTrial looks at the trial's pod. Its Job tells nothing that the pod does not.
func lookAtTrial(ctx context.Context, api API, s *Settings) (*loadSeen, error) {
	pods, err := api.List(ctx, resPods, LoadNamespace(s), "batch.kubernetes.io/job-name="+s.Names().Trial)
	if err != nil {
		return nil, err
	}
	return &loadSeen{settings: s, pod: newestOf(pods)}, nil
}

// notOurs is why the program of an image cannot be the load's: it was not there, or failed.
func (l *loadSeen) notOurs() []Cause {
	ended := l.container().Map("state", "terminated")
	code, ok := ended.Int("exitCode")
	if !ok || code == 0 || ended.Text("reason") == "OOMKilled" {
		return nil
	}
	image := imageOf(l.pod, loadContainerOf(l.settings))
	return []Cause{{Reason: "NotTheLoad", Source: l.pod.Name(), rule: "trial",
		Text: sentence(fmt.Sprintf("%s was pulled, and ended with exit code %d: %s", image, code,
			cmp.Or(ended.Text("message"), ended.Text("reason"), "no words")), 400),
		Advice: []string{"--image names the image of this program, which `make image` builds; `aicr versions` lists what is pulled"}}}
}
