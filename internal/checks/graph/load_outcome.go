package graph

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"aicr/internal/spec"
)

// Where a result came from. No result is "".
const (
	ByRecord    = "record"    // all of the run, fetched from the pod: it can be judged again
	ByConfigMap = "configmap" // the compact copy: verdict, events, what each episode sums up to
	ByMessage   = "message"   // the termination message: the verdict's word and reason alone
	ByAIPerf    = "aiperf"    // what AIPerf printed, as an episode, or that nothing answered before it; it is not judged yet
	ByKept      = "kept"      // the verdict that the run was given when it was led before
)

// Outcome is what became of a load.
type Outcome struct {
	By      string              // as above; "": there is no result
	Pod     string              // of the load; "": it was never seen
	Files   map[string][]byte   // ByConfigMap: files of the run's folder, by their path in it
	LeftOut []string            // ByConfigMap: what did not fit
	Message *LoadMessage        // what the pod said of itself last, whatever By is; nil: nothing
	Episode *spec.EpisodeRecord // ByAIPerf; nil: nothing answered, and AIPerf was not begun
	Answer  []spec.Event        // of AIPerf's Job: its first answer, or that there was none; their times count from Began
	Began   time.Time           // AIPerf's Job, by the clock of its node

	Over float64 // when the load was over, in seconds since the run's start; 0: not heard

	Unfetched error // why the record was not fetched, though its pod has not ended; nil: it has

	// Without a result: what became of it, in a word (OOMKilled, DeadlineExceeded, Evicted,
	// Panic, NodeLost, PodDeleted, JobDeleted, Exit, NoResult) and in words.
	Reason string
	Why    string
	Exit   *int     // the container's exit code, where it ended
	Tail   []string // the last lines that it printed besides its own
}

// Spool is where a fetched record is put: an open file.
type Spool interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

// Event is what the record keeps of a load without a result: the judge does not take what
// is there for a run that ended.
func (o *Outcome) Event() spec.Event {
	return spec.Event{Kind: spec.EventInterrupt, Source: o.Pod, Reason: o.Reason, Text: o.Why}
}

// without says why there is no record.
func (o *Outcome) without() string {
	if o.Unfetched != nil {
		return "the load's record could not be fetched: " + o.Unfetched.Error()
	}
	return "the load's pod is gone and its record with it"
}

// explain says why a load that has ended gave no result. Nothing of it is ever taken for
// a pass or for nothing to do: an exit code alone says nothing, and that of a Go program
// that crashed is the one that was published for a skip.
func (o *Outcome) explain(l *loadSeen) {
	ended := l.container().Map("state", "terminated")
	if code, ok := ended.Int("exitCode"); ok {
		exit := int(code)
		o.Exit = &exit
	}
	failed := conditionOf(l.job, "Failed")
	if failed == nil { // as long as its pod is there
		failed = conditionOf(l.job, "FailureTarget")
	}
	target := conditionOf(l.pod, "DisruptionTarget")
	pod, reason := o.Pod, l.pod.Text("status", "reason")
	switch {
	case ended.Text("reason") == "OOMKilled":
		o.tell("OOMKilled", "the load's container was killed for its memory, %s", limitOf(l.pod, loadContainerOf(l.settings)))
	case l.lost != "":
		o.tell("NodeLost", "the load's pod %s was lost with its node %s", pod, l.lost)
	case failed.Text("reason") == "DeadlineExceeded":
		o.tell("DeadlineExceeded", "the load's Job was ended by its own deadline: %s", failed.Text("message"))
	case reason == "Evicted" || reason == "Preempting" || reason == "Shutdown" || reason == "Terminated" || reason == "NodeShutdown":
		o.tell("Evicted", "the load's pod %s was put out by its node: %s", pod, sentence(reason+": "+l.pod.Text("status", "message"), 300))
	case slices.Contains([]string{"PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet"}, target.Text("reason")):
		o.tell("Evicted", "the load's pod %s was put out of its node: %s", pod, sentence(target.Text("reason")+": "+target.Text("message"), 300))
	case reason == "NodeLost" || holds(l.pod, "DisruptionTarget"):
		o.tell("NodeLost", "the load's pod %s was lost with its node: %s", pod, sentence(target.Text("message")+" "+l.pod.Text("status", "message"), 300))
	case l.job == nil && l.pod == nil:
		o.tell("JobDeleted", "the load's Job was deleted while it ran")
	case l.pod.Deleting() && !l.ended():
		o.tell("PodDeleted", "the load's pod %s was deleted while it ran, and its node does not say that it has ended", pod)
	case l.late:
		o.tell("DeadlineExceeded", "the load's Job is past its deadline of %s, and nobody has ended it", loadDeadline(l.settings))
	case l.pod == nil || l.pod.Deleting():
		o.tell("PodDeleted", "the load's pod %s was deleted while it ran", pod)
	case o.crash() != "":
		o.tell("Panic", "the load itself has crashed: %s", o.crash())
	case l.neverRan():
		o.tell("Exit", "the load's container could not run: %s", sentence(ended.Text("message"), 300))
	case o.Message != nil && o.Message.Error != "" && o.Message.Run == "":
		o.tell("Exit", "the load cannot use what it was given; is its image %s of another version than this program? %s", l.settings.Images.Load, sentence(o.Message.Error, 300))
	case o.Message != nil && o.Message.Error != "":
		o.tell("Exit", "the load could not be carried out: %s", sentence(o.Message.Error, 400))
	case o.Exit != nil && *o.Exit == 137:
		o.tell("Killed", "the load's container was killed (exit code 137) and said nothing")
	case o.Exit != nil:
		o.tell("Exit", "the load ended with code %d and without a result", *o.Exit)
	default:
		o.tell("NoResult", "the load ended without a result")
	}
	if o.Message != nil && o.Message.Stage != "" && o.Message.Error == "" {
		o.Why += "; it was at: " + o.Message.Stage
	}
}

// neverRan says that the node could not start the container's program.
func (l *loadSeen) neverRan() bool {
	return slices.Contains([]string{"ContainerCannotRun", "StartError"}, l.container().Text("state", "terminated", "reason"))
}

func (o *Outcome) tell(reason, format string, args ...any) {
	o.Reason, o.Why = reason, strings.TrimSuffix(strings.TrimSpace(fmt.Sprintf(format, args...)), ":")
}

// pythonError is the line of a traceback that says what it is of: its last.
var pythonError = regexp.MustCompile(`^[A-Za-z_][\w.]*(Error|Exception)(:|$)`)

// crash is the line of a crash among the last lines.
func (o *Outcome) crash() string {
	for _, line := range o.Tail {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return sentence(line, 300)
		}
		if !strings.HasPrefix(line, "Traceback (most recent call last)") {
			continue
		}
		for _, last := range slices.Backward(o.Tail) {
			if pythonError.MatchString(last) {
				return sentence(last, 300)
			}
		}
		return sentence(line, 300)
	}
	return ""
}
