package graph

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// What is kept of a run is in a ConfigMap, which others may write too. It is gone on with only
// where it is about the run that was asked for, in the namespace that was asked for, and where
// every value in it is one that this program could have written. What a run makes and deletes
// is named after the id that was asked for (NamesOf), and never after what is read there.

// DistrustCode is why a value that is kept of a run is not believed.
type DistrustCode string

// The codes.
const (
	DistrustOther   DistrustCode = "another-run"  // it is of something else than was asked for
	DistrustUnsound DistrustCode = "out-of-range" // this program writes no such value
)

// Distrust is one value that is not believed.
type Distrust struct {
	Code  DistrustCode
	Field string // settings.json run
	Have  string // the value, as it is there
	Want  string // the value, or what would be believed
}

// String is a line on it. What is kept may have any character in it, and any number of them.
func (d Distrust) String() string {
	if d.Code == DistrustOther {
		return fmt.Sprintf("%s is %s, and %s was asked for", d.Field, quotedBriefly(d.Have), quotedBriefly(d.Want))
	}
	return fmt.Sprintf("%s is %s, and not %s", d.Field, quotedBriefly(d.Have), d.Want)
}

// quotedBriefly is the beginning of a word of others, in ASCII that can be printed.
func quotedBriefly(word string) string {
	const most = 80
	if r := []rune(word); len(r) > most {
		word = string(r[:most]) + "..."
	}
	return strconv.QuoteToASCII(word)
}

// DistrustError says that what is kept of a run is not gone on with.
type DistrustError struct {
	Run, Namespace string
	All            []Distrust
}

// mostDistrusted is how many values an error names.
const mostDistrusted = 8

func (e *DistrustError) Error() string {
	var lines []string
	for _, d := range e.All[:min(len(e.All), mostDistrusted)] {
		lines = append(lines, d.String())
	}
	if n := len(e.All) - len(lines); n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("ConfigMap %s/%s is not what a run keeps: %s", e.Namespace, NamesOf(e.Run).Kept, strings.Join(lines, "; "))
}

// distrust holds what is kept against the run and the namespace that were asked for.
func (k *Kept) distrust(namespace, run string) error {
	c := &believer{}
	c.same(fileRun+" id", k.Run.ID, run)
	c.same(fileSettings+" run", k.Settings.Run, run)
	c.same(fileSettings+" namespace", k.Settings.Namespace, namespace)
	c.word(fileStage, k.Stage, StageDeploy, StageLoad, StageFailed, StageJudged)
	if k.Run.Start != "" {
		_, err := time.Parse(time.RFC3339Nano, k.Run.Start)
		c.check(fileRun+" start", k.Run.Start, err == nil, "a time as in RFC 3339")
	}
	c.settings(k.Settings)
	if k.Plan.Point.Workers > 0 {
		c.number("plan.yaml point.workers", k.Plan.Point.Workers, 1, mostWorkers)
	}
	if k.Targets != nil {
		c.targets(k.Targets, k.Settings)
	}
	if v := k.Verdict; v != nil {
		c.check(fileVerdict+" verdict", string(v.Verdict), v.Verdict.Verdict(), "a verdict")
	}
	if len(c.wrong) > 0 {
		return &DistrustError{Run: run, Namespace: namespace, All: c.wrong}
	}
	return nil
}

// believer collects what is not believed.
type believer struct{ wrong []Distrust }

func (c *believer) same(field, have, want string) {
	if have != want {
		c.wrong = append(c.wrong, Distrust{DistrustOther, field, have, want})
	}
}

func (c *believer) check(field, have string, sound bool, want string) {
	if !sound {
		c.wrong = append(c.wrong, Distrust{DistrustUnsound, field, have, want})
	}
}

func (c *believer) word(field, have string, words ...string) {
	c.check(field, have, slices.Contains(words, have), "one of: "+strings.Join(words, " "))
}

func (c *believer) number(field string, have, least, most int) {
	c.check(field, digits(have), have >= least && have <= most, fmt.Sprintf("from %d to %d", least, most))
}

func (c *believer) lasts(field string, have Duration) {
	c.check(field, time.Duration(have).String(), have >= 0 && time.Duration(have) <= mostLasting, "from 0s to "+mostLasting.String())
}

// name wants a name of an object, or nothing where that is allowed.
func (c *believer) name(field, have string, optional bool) {
	c.check(field, have, optional && have == "" || isObjectName(have), "the name of an object")
}

func (c *believer) like(field, have string, most int, shape *regexp.Regexp, want string) {
	c.check(field, have, len(have) <= most && shape.MatchString(have), want)
}

// What is believed at most. It is far beyond what any run has, and below what would do harm.
const (
	mostWorkers     = 1024
	mostLasting     = 14 * 24 * time.Hour
	mostTolerations = 100
	mostNodesOff    = 20000
	mostPages       = 4096
	mostRequested   = 1_000_000_000
)

var (
	labelShape  = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$`)
	taintShape  = regexp.MustCompile(`^[A-Za-z0-9._/-]*$`)
	imageShape  = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._:/@-]*)?$`)
	modelShape  = regexp.MustCompile(`^([A-Za-z0-9/.][A-Za-z0-9._:/@+=-]*)?$`)
	wordShape   = regexp.MustCompile(`^[A-Za-z0-9._+~/() -]*$`)
	uidShape    = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	numberShape = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`)
)

// settings wants each to be one that a run on one node has.
func (c *believer) settings(s *Settings) {
	at := func(field string) string { return fileSettings + " " + field }
	c.name(at("node"), s.Node, false)
	c.like(at("host"), s.Host, 63, labelShape, "the value of a label")
	c.number(at("workers"), s.Workers, 1, mostWorkers)
	c.word(at("gpus"), s.GPUs, ByClaim, ByDevicePlugin)
	c.word(at("dra"), s.DRA, append([]string{""}, draVersions...)...)
	c.check(at("dra"), s.DRA, s.GPUs != ByClaim || s.DRA != "", "a version, where GPUs are claimed")
	c.word(at("graphAPI"), s.Graph, graphVersions...)
	c.word(at("router"), s.Router, append([]string{""}, spec.RouterModes()...)...)
	c.name(at("parent"), s.Parent, true)
	c.like(at("model"), s.Model, 512, modelShape, "the name of a model")
	c.word(at("engine"), s.Engine, EngineOwn, EngineAIPerf)
	c.images(&s.Images)
	if s.Cache != nil {
		c.name(at("cache.class"), s.Cache.Class, true)
		_, err := resource.ParseQuantity(s.Cache.Size)
		c.check(at("cache.size"), s.Cache.Size, err == nil && numberShape.MatchString(s.Cache.Size), "a size, as 100Gi")
		c.lasts(at("cache.populateWithin"), s.Cache.Populate)
	}
	c.resources(&s.Resources)
	c.number(at("held, how many"), len(s.Held), 0, mostNodesOff)
	for _, h := range s.Held {
		c.word(at("held.kind"), h.Kind, "Pod", "ResourceClaim")
		c.name(at("held.namespace"), h.Namespace, true)
		c.name(at("held.name"), h.Name, true)
		c.number(at("held.gpus"), h.GPUs, 0, mostWorkers)
	}
	c.tolerations(s.Tolerations)
	c.number(at("loadOff, how many"), len(s.LoadOff), 0, mostNodesOff)
	for _, node := range s.LoadOff {
		c.name(at("loadOff"), node, false)
	}
	c.check(at("aiperf"), "", s.Engine != EngineAIPerf || s.AIPerf != nil, "missing, where AIPerf loads")
	if l := s.AIPerf; l != nil {
		for field, n := range map[string]int{"concurrency": l.Concurrency, "requests": l.Requests, "warmup": l.Warmup, "inputTokens": l.InputTokens, "outputTokens": l.OutputTokens} {
			c.number(at("aiperf."+field), n, 0, mostRequested)
		}
	}
	for field, d := range map[string]Duration{"readyWithin": s.ReadyWithin, "answerWithin": s.AnswerWithin, "podWithin": s.PodWithin, "loadWithin": s.LoadWithin, "keepFor": s.KeepFor} {
		c.lasts(at(field), d)
	}
	c.like(at("version"), s.Version, 128, wordShape, "a version")
	c.like(at("spaceUID"), s.SpaceUID, 128, uidShape, "a UID")
}

func (c *believer) images(i *Images) {
	at := func(field string) string { return fileSettings + " images." + field }
	for field, ref := range map[string]string{"runtime": i.Runtime, "endpointPicker": i.EndpointPicker, "load": i.Load, "aiperf": i.AIPerf} {
		c.like(at(field), ref, 1024, imageShape, "a reference of an image")
	}
	c.like(at("release"), i.Release, 128, labelShape, "a release")
	c.name(at("pullSecret"), i.PullSecret, true)
}

// resources wants each to be one that can be asked for by a flag: with any other name the pods
// would get what nobody asked for, as GPUs.
func (c *believer) resources(p *PodResources) {
	names := []string{"cpu", "memory", "ephemeral-storage"}
	for whose, r := range map[string]spec.Resources{"worker": p.Worker, "frontend": p.Frontend, "jobs": p.Jobs, "load": p.Load} {
		for _, side := range []map[string]string{r.Requests, r.Limits} {
			for name, amount := range side {
				at := fileSettings + " resources." + whose
				c.word(at, name, names...)
				q, err := resource.ParseQuantity(amount)
				c.check(at+" "+quotedBriefly(name), amount, err == nil && q.Sign() >= 0 && len(amount) <= 32, "an amount, as 500m or 64Gi")
			}
		}
	}
}

func (c *believer) tolerations(all []kube.Toleration) {
	c.number(fileSettings+" tolerations, how many", len(all), 0, mostTolerations)
	for _, t := range all {
		at := func(field string) string { return fileSettings + " tolerations." + field }
		c.like(at("key"), t.Key, 317, taintShape, "the key of a taint")
		c.like(at("value"), t.Value, 63, labelShape, "the value of a taint")
		c.word(at("operator"), t.Operator, "", "Exists", "Equal")
		c.word(at("effect"), t.Effect, "", "NoSchedule", "PreferNoSchedule", "NoExecute")
	}
}

// targets wants the load to go where the run's own graph answers, and nowhere else: a load
// that is sent to the service of another team would take it down.
func (c *believer) targets(t *Targets, s *Settings) {
	at := func(field string) string { return fileTargets + " " + field }
	want := entrance(s)
	c.same(at("url"), t.URL, want.URL)
	c.same(at("frontend"), t.Frontend, want.Frontend)
	c.same(at("node"), t.Node, s.Node)
	for name, value := range t.Headers {
		c.same(at("headers, "+quotedBriefly(name)), value, want.Headers[name])
	}
	c.number(at("headers, how many"), len(t.Headers), len(want.Headers), len(want.Headers))
	c.number(at("workers, how many"), len(t.Workers), 1, mostWorkers)
	for _, w := range t.Workers {
		c.name(at("workers.name"), w.Name, false)
		c.name(at("workers.pod"), w.Pod, false)
		c.page(at("workers.url"), w.URL, "http", "/metrics")
		c.like(at("workers.gpu"), w.GPU, 128, uidShape, "a UUID")
		c.check(at("workers.restarts"), fmt.Sprint(w.Restarts), w.Restarts >= 0 && w.Restarts <= mostRequested, "a number of restarts")
	}
	c.number(at("gpus and nodes, how many"), len(t.GPUs)+len(t.Nodes), 0, mostPages)
	for _, page := range slices.Concat(t.GPUs, t.Nodes) {
		c.page(at("gpus or nodes"), page, "http", "/metrics")
	}
	if t.Kubelet != "" {
		c.page(at("kubelet"), t.Kubelet, "https", "/stats/summary")
	}
	for _, why := range t.Missing {
		c.check(at("missing"), why, len(why) <= 4096, "at most 4096 bytes")
	}
}

// page wants a page of an address: the load asks no name, and nothing else of an address.
func (c *believer) page(field, have, scheme, path string) {
	u, err := url.Parse(have)
	sound := err == nil && u.Scheme == scheme && u.Path == path && u.User == nil && u.RawQuery == "" && u.Fragment == "" && net.ParseIP(u.Hostname()) != nil
	c.check(field, have, sound, scheme+"://ADDRESS:PORT"+path)
}

// OtherImage is an image that the pods of a run would pull, and that is another than the one
// that was asked for.
type OtherImage struct{ Of, Kept, Asked string }

// UseImages has a run go on with the images that the program and its flags resolve, and not
// with those that are kept of it: who can write the ConfigMap would else choose what runs. It
// gives those that differ, of the pods that are still to be made; then nothing is changed.
func (k *Kept) UseImages(ctx context.Context, api API, asked Images) ([]OtherImage, error) {
	s := k.Settings
	var other []OtherImage
	differ := func(of, kept, want string) {
		if kept != want {
			other = append(other, OtherImage{of, kept, want})
		}
	}
	switch k.Stage {
	case StageDeploy:
		differ("the runtime", s.Images.Runtime, asked.Runtime)
		differ("the runtime's release", s.Images.Release, asked.Release)
		if s.Gateway {
			differ("the endpoint picker", s.Images.EndpointPicker, asked.EndpointPicker)
		}
	case StageLoad:
		_, err := api.Read(ctx, resJobs, LoadNamespace(s), s.Names().Load)
		if err == nil || !kube.IsNotFound(err) {
			return nil, err // its Job has its image
		}
	default: // nothing is made any more
		return nil, nil
	}
	if s.Engine == EngineAIPerf {
		differ("AIPerf", s.Images.AIPerf, asked.AIPerf)
	} else {
		differ("the load", s.Images.Load, asked.Load)
	}
	differ("the Secret that images are pulled with", s.Images.PullSecret, asked.PullSecret)
	if len(other) == 0 {
		s.Images = asked
	}
	return other, nil
}
