package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
)

// How long each thing may take to go.
const (
	graphGoneWithin     = 90 * time.Second
	podsGoneWithin      = 3 * time.Minute // an endpoint picker's has 130 s of its own to end, the others 60 s
	claimsGoneWithin    = 30 * time.Second
	jobGoneWithin       = time.Minute
	smallGoneWithin     = 30 * time.Second
	namespaceGoneWithin = 2 * time.Minute
	stuckGoneWithin     = 30 * time.Second
	goneEvery           = 500 * time.Millisecond
)

// Left is an object of a run that is still there.
type Left struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Run       string `json:"run"`
	Why       string `json:"why"`
	Show      string `json:"show,omitempty"` // the command that shows what holds it
	Command   string `json:"command"`        // the command that removes it
}

// String is a line on it.
func (l Left) String() string {
	name := l.Name
	if l.Namespace != "" {
		name = l.Namespace + "/" + l.Name
	}
	return l.Kind + " " + name + ": " + l.Why
}

// Teardown removes what a run has made, in order: the graph, its pods, its claims, the
// queue, the route, the namespace; then the load's Job, its rights, what was kept. Each
// wait has its own end. Only what carries our owner's label and this run's is deleted. The
// namespace of the validations stays, whoever made it: RemoveSpace removes it.
// It gives what is left.
func Teardown(ctx context.Context, api API, s *Settings, told Told) []Left {
	r := &remover{api: api, told: told, run: s.Run, names: s.Names(), queued: s.Queue, spaceUID: s.SpaceUID, shared: s.Namespaced, prepared: s.Prepared}
	r.graph(ctx)
	r.load(ctx, s.Namespace)
	told.waiting("")
	return r.left
}

// remover removes what one run has made.
type remover struct {
	api   API
	told  Told
	run   string
	names Names

	queued   bool   // it made a queue: who may not look for one cannot know that it is gone
	spaceUID string // of the namespace that it made for the graph; "": unknown

	shared   bool // its graph is in a namespace that others use too, and nothing of it is cluster-wide
	prepared bool // it made no account and no rights
	unsure   bool // whether it did is unknown: who may not look for them has not made any

	dead *deadWebhook // of Dynamo's operator; nil: it answered when it was last needed

	dry bool // nothing is touched, and all that would be deleted is taken for gone

	removed []Removed
	left    []Left
	noted   map[string]kube.Resource // where the kinds of left are
}

var (
	resRoles        = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "roles"}
	resRoleBindings = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "rolebindings"}
	resClusterRoles = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "clusterroles"}
	resClusterBinds = kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "clusterrolebindings"}
	resQueues       = kube.Resource{Group: "scheduling.run.ai", Version: "v2", Name: "queues"}
	resRoutes       = kube.Resource{Group: "gateway.networking.k8s.io", Version: "v1", Name: "httproutes"}

	graphVersions = []string{"v1beta1", "v1alpha1"}
	draVersions   = []string{"v1", "v1beta2", "v1beta1"}
)

// kindOf names a resource as people do.
func kindOf(r kube.Resource) string {
	kinds := map[string]string{"namespaces": "Namespace", "pods": "Pod", "configmaps": "ConfigMap", "events": "Event", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "jobs": "Job",
		"persistentvolumeclaims": "PersistentVolumeClaim", "roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding",
		"queues": "Queue", "leases": "Lease", "httproutes": "HTTPRoute", "dynamographdeployments": "DynamoGraphDeployment", "resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate"}
	if kind := kinds[r.Name]; kind != "" {
		return kind
	}
	return r.Name
}

// kubectlName is how kubectl is told of a resource: with its group, where it has one.
func kubectlName(r kube.Resource) string {
	if r.Group == "" || r.Group == "batch" || r.Group == "rbac.authorization.k8s.io" {
		return strings.TrimSuffix(r.Name, "s")
	}
	if isGraphs(r) && r.Version != graphVersions[0] { // which kubectl would ask for
		return r.Name + "." + r.Version + "." + r.Group
	}
	return r.Name + "." + r.Group
}

func kubectl(verb string, r kube.Resource, namespace, name string) string {
	command := "kubectl " + verb + " " + kubectlName(r) + " " + name
	if namespace != "" {
		command += " -n " + namespace
	}
	return command
}

// holdsBack is why an object that is deleted is still there.
func holdsBack(o kube.Object) string {
	var why []string
	for _, kind := range []string{"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"} {
		if c := conditionOf(o, kind); c.Text("status") == "True" {
			why = append(why, c.Text("message"))
		}
	}
	if all := o.Finalizers(); len(all) > 0 {
		why = append(why, "finalizer "+strings.Join(all, ", ")+" is not done: is its controller running?")
	}
	if len(why) == 0 && !o.Deleting() {
		return "it was not deleted"
	}
	if len(why) == 0 {
		return "it is being deleted"
	}
	return strings.Join(why, "; ")
}

// read reads an object, in whichever version it is to be had.
func (r *remover) read(ctx context.Context, res kube.Resource, namespace, name string) (kube.Object, error) {
	o, dead, err := readAny(ctx, r.api, res, namespace, name)
	r.hears(res, dead)
	return o, err
}

// hears notes whether Dynamo's operator answered when it was last needed.
func (r *remover) hears(res kube.Resource, dead *deadWebhook) {
	if isGraphs(res) {
		r.dead = dead
	}
}

// delete deletes one likewise.
func (r *remover) delete(ctx context.Context, res kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	_, dead, err := inAny(ctx, res, func(ctx context.Context, res kube.Resource) (struct{}, error) {
		return struct{}{}, r.api.Delete(ctx, res, namespace, name, o)
	})
	r.hears(res, dead)
	return err
}

// stays notes that something is left. A graph whose operator is away stays until that is back:
// kubectl, which asks for the newest version, does not get at it either.
func (r *remover) stays(res kube.Resource, namespace, name, why string, o kube.Object) {
	if r.dead != nil && isGraphs(res) {
		res.Version = cmp.Or(r.dead.Stored, res.Version)
		why += fmt.Sprintf("; Dynamo's operator does not answer (its webhook %s): start it, or install it again, "+
			"and 'aicr clean --run %s' removes the graph", r.dead.Name, r.run)
		if r.shared { // no namespace takes them with it
			why += "; its pods run until then, and hold their GPUs"
		}
	}
	l := Left{Kind: kindOf(res), Namespace: namespace, Name: name, Run: r.run, Why: why, Command: kubectl("delete", res, namespace, name)}
	if r.noted == nil {
		r.noted = map[string]kube.Resource{}
	}
	r.noted[l.Kind] = res
	if o.Deleting() {
		l.Show = kubectl("get", res, namespace, name) + " -o yaml"
		if len(o.Finalizers()) > 0 {
			l.Command = kubectl("patch", res, namespace, name) + ` --type=merge -p '{"metadata":{"finalizers":null}}'`
		}
	}
	for i := range r.left {
		if was := &r.left[i]; was.Kind == l.Kind && was.Namespace == l.Namespace && was.Name == l.Name {
			*was = l
			return
		}
	}
	r.left = append(r.left, l)
	r.told.say("left: %s", l)
}

// recheck forgets what has gone since it was noted.
func (r *remover) recheck(ctx context.Context) {
	r.left = slices.DeleteFunc(r.left, func(l Left) bool {
		_, err := r.read(ctx, r.noted[l.Kind], l.Namespace, l.Name)
		return kube.IsNotFound(err) && !strings.HasPrefix(l.Name, "-") // a whole kind, which could not be looked for
	})
}

// remove deletes one object of this run, and waits until it is gone. Whatever does not
// carry the labels is left alone, and is not ours to speak of.
func (r *remover) remove(ctx context.Context, res kube.Resource, o kube.Object, foreground bool, within time.Duration) (gone bool) {
	if !oursOf(o, r.run) || o.UID() == "" {
		return true
	}
	if r.dry {
		return r.went(res, o)
	}
	if !o.Deleting() {
		err := r.delete(ctx, res, o.Namespace(), o.Name(), kube.DeleteOptions{UID: o.UID(), Foreground: foreground})
		if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) {
			r.stays(res, o.Namespace(), o.Name(), "it could not be deleted: "+err.Error(), o)
			return false
		}
	}
	return r.gone(ctx, res, o, within)
}

// gone waits until an object is no longer there.
func (r *remover) gone(ctx context.Context, res kube.Resource, o kube.Object, within time.Duration) bool {
	last := o
	for began := time.Now(); ; {
		now, err := r.read(ctx, res, o.Namespace(), o.Name())
		switch {
		case kube.IsNotFound(err), err == nil && now.UID() != o.UID():
			return r.went(res, o)
		case err == nil:
			last = now
		case !kube.IsAway(err):
			r.stays(res, o.Namespace(), o.Name(), "it is not known whether it is gone: "+err.Error(), last)
			return false
		}
		if time.Since(began) >= within {
			r.stays(res, o.Namespace(), o.Name(), fmt.Sprintf("still there after %s: %s", within, holdsBack(last)), last)
			return false
		}
		r.told.waiting(fmt.Sprintf("%s %s to be gone%s", kindOf(res), o.Name(), after(time.Since(began))))
		if err := pauseFor(ctx, goneEvery); err != nil {
			r.stays(res, o.Namespace(), o.Name(), "it is not known whether it is gone: "+err.Error(), last)
			return false
		}
	}
}

// went notes that an object is gone, or would be.
func (r *remover) went(res kube.Resource, o kube.Object) bool {
	if r.shared || o.Namespace() != r.names.Namespace { // what was in the run's own goes with it
		r.removed = append(r.removed, Removed{Run: r.run, Kind: kindOf(res), Namespace: o.Namespace(), Name: o.Name()})
	}
	return true
}

// selector finds what a run has made.
func (r *remover) selector() string {
	return LabelOwner + "=" + OwnerValue + "," + LabelRun + "=" + r.run
}

// some lists what this run has made of a kind that every cluster has.
func (r *remover) some(ctx context.Context, res kube.Resource, namespace string) []kube.Object {
	all, err := r.api.List(ctx, res, namespace, r.selector())
	if err != nil {
		r.stays(res, namespace, "-l "+r.selector(), "it could not be looked for: "+err.Error(), nil)
	}
	return all
}

// served is a list in the first version that the cluster has of a kind.
func (r *remover) served(ctx context.Context, namespace string, versions []string, of func(version string) kube.Resource) (kube.Resource, []kube.Object, error) {
	for _, v := range versions {
		all, dead, err := listAny(ctx, r.api, of(v), namespace, "")
		if kube.IsNotFound(err) {
			continue
		}
		r.hears(of(v), dead)
		return of(v), all, err
	}
	return kube.Resource{}, nil, nil
}

// graph removes what serves, and its namespace.
func (r *remover) graph(ctx context.Context) {
	if r.shared {
		r.within(ctx, r.names.Namespace)
		return
	}
	space, err := r.api.Read(ctx, resNamespaces, "", r.names.Namespace)
	switch {
	case kube.IsNotFound(err):
	case err != nil:
		r.stays(resNamespaces, "", r.names.Namespace, "it could not be read: "+err.Error(), nil)
	case !oursOf(space, r.run):
		space = nil // somebody else's, of the same name
	case r.spaceUID != "" && space.UID() != r.spaceUID:
		r.told.say("namespace %s is not the one that run %s made, and is left alone", space.Name(), r.run)
		space = nil
	}
	if err == nil && space != nil {
		r.inside(ctx, space)
	}
	r.queue(ctx)
	if err == nil && space != nil {
		// Who needs no route need not have the right to look for one; it goes with its
		// namespace then.
		if routes, err := r.api.List(ctx, resRoutes, r.names.Namespace, r.selector()); err == nil {
			for _, o := range routes {
				r.remove(ctx, resRoutes, o, false, smallGoneWithin)
			}
		}
		others, unseen := r.others(ctx, r.names.Namespace)
		if unseen != nil {
			r.stays(resNamespaces, "", r.names.Namespace, "what else is in it could not be listed: "+unseen.Error(), nil)
			r.recheck(ctx)
			return
		}
		if len(others) > 0 {
			r.stays(resNamespaces, "", r.names.Namespace, "it holds what the run did not make, which would go with it: "+strings.Join(others, ", "), nil)
			r.recheck(ctx)
			return
		}
		within := namespaceGoneWithin
		if len(r.left) > 0 {
			within = stuckGoneWithin // what is stuck in it keeps it, however long one waits
		}
		if r.remove(ctx, resNamespaces, space, false, within) {
			// With its namespace, all that was in it is gone.
			r.left = slices.DeleteFunc(r.left, func(l Left) bool { return l.Namespace == r.names.Namespace })
		} else {
			r.recheck(ctx)
		}
	}
}

// inside removes what is in the graph's namespace and has to go in order: the graph
// first, then who serves, then the GPUs that they held.
func (r *remover) inside(ctx context.Context, space kube.Object) {
	in := space.Name()
	res, graphs, err := r.served(ctx, in, graphVersions, resGraphs)
	if err != nil {
		r.stays(resGraphs(graphVersions[0]), in, "--all", "it could not be looked for: "+err.Error(), nil)
	}
	stuck := false
	for _, o := range graphs {
		stuck = !r.remove(ctx, res, o, true, graphGoneWithin) || stuck
	}
	for _, o := range r.some(ctx, resJobs, in) {
		r.removeJob(ctx, o)
	}
	if stuck || r.dry {
		return // nobody takes its pods away then but the namespace, or nobody at all
	}
	r.emptied(ctx, in)
}

// emptied waits until pods and claims of the run are gone.
func (r *remover) emptied(ctx context.Context, in string) {
	r.empty(ctx, in, podsGoneWithin, func() (kube.Resource, []kube.Object, error) {
		all, err := r.api.List(ctx, resPods, in, "")
		return resPods, slices.DeleteFunc(all, r.isOther), err
	})
	r.empty(ctx, in, claimsGoneWithin, func() (kube.Resource, []kube.Object, error) {
		res, all, err := r.served(ctx, in, draVersions, func(v string) kube.Resource { return resDRA(v, "resourceclaims") })
		if r.shared {
			all = slices.DeleteFunc(all, func(o kube.Object) bool { return !r.names.names(o.Name()) })
		}
		if kube.IsForbidden(err) { // who claims nothing need not have the right
			err = nil
		}
		return res, all, err
	})
}

// isOther says that a pod of the graph's namespace is of something that the run did not make:
// pods of a graph carry its name, and those of a Job the Job's.
func (r *remover) isOther(pod kube.Object) bool {
	return !r.names.ownPod(pod, r.run) && (r.shared || roleOf(pod) == roleOther)
}

// within removes what serves from a namespace that others use too: by name, and only what
// carries the run's labels. The Secret goes with what is kept of the run, which owns it.
func (r *remover) within(ctx context.Context, in string) {
	res, graphs, err := r.served(ctx, in, graphVersions, resGraphs)
	if err != nil {
		r.stays(resGraphs(graphVersions[0]), in, r.names.Graph, "it could not be looked for: "+err.Error(), nil)
	}
	stuck := false
	for _, o := range graphs {
		stuck = !r.remove(ctx, res, o, true, graphGoneWithin) || stuck
	}
	for _, o := range r.some(ctx, resJobs, in) {
		r.removeJob(ctx, o)
	}
	if !stuck && !r.dry {
		r.emptied(ctx, in)
	}
	// Who needs no route need not have the right to look for one.
	if routes, err := r.api.List(ctx, resRoutes, in, r.selector()); err == nil {
		for _, o := range routes {
			r.remove(ctx, resRoutes, o, false, smallGoneWithin)
		}
	}
	r.named(ctx, resVolumes, in, r.names.Volume)
	for _, v := range draVersions {
		if r.named(ctx, resDRA(v, "resourceclaimtemplates"), in, r.names.Claim) {
			break
		}
	}
}

// named removes an object of the run by its name. Who may not read one needs none.
func (r *remover) named(ctx context.Context, res kube.Resource, in, name string) (there bool) {
	o, err := r.api.Read(ctx, res, in, name)
	switch {
	case err == nil:
		r.remove(ctx, res, o, false, smallGoneWithin)
		return true
	case !kube.IsNotFound(err) && !kube.IsForbidden(err):
		r.stays(res, in, name, "it could not be read: "+err.Error(), nil)
	}
	return false
}

// rights lists what this run has made of a kind of rights.
func (r *remover) rights(ctx context.Context, res kube.Resource, namespace string) []kube.Object {
	all, err := r.api.List(ctx, res, namespace, r.selector())
	if err != nil && !(r.unsure && kube.IsForbidden(err)) {
		r.stays(res, namespace, "-l "+r.selector(), "it could not be looked for: "+err.Error(), nil)
	}
	return all
}

// others are the workloads of the graph's namespace that the run did not make, by what its
// rights let it see: pods, Jobs and graphs. Whoever put them there has not meant them to go.
func (r *remover) others(ctx context.Context, in string) (names []string, err error) {
	unlabelled := func(o kube.Object) bool { return !oursOf(o, r.run) }
	look := func(res kube.Resource, all []kube.Object, unseen error, isOther func(kube.Object) bool) {
		err = cmp.Or(err, unseen)
		for _, o := range all {
			if isOther(o) && len(o.List("metadata", "ownerReferences")) == 0 {
				names = append(names, kindOf(res)+" "+o.Name())
			}
		}
	}
	pods, unseen := r.api.List(ctx, resPods, in, "")
	look(resPods, pods, unseen, r.isOther)
	jobs, unseen := r.api.List(ctx, resJobs, in, "")
	look(resJobs, jobs, unseen, unlabelled)
	res, graphs, unseen := r.served(ctx, in, graphVersions, resGraphs)
	look(res, graphs, unseen, unlabelled)
	return names, err
}

// empty waits until there is nothing of a kind in a namespace that is this run's.
func (r *remover) empty(ctx context.Context, in string, within time.Duration, list func() (kube.Resource, []kube.Object, error)) {
	for began := time.Now(); ; {
		res, all, err := list()
		if err != nil && !kube.IsAway(err) {
			r.stays(res, in, "--all", "it is not known whether it is gone: "+err.Error(), nil)
			return
		}
		if err == nil && len(all) == 0 {
			return
		}
		if time.Since(began) >= within {
			for _, o := range all {
				why := fmt.Sprintf("still there after %s: %s", within, holdsBack(o))
				if node := o.Text("spec", "nodeName"); node != "" {
					why += ", on node " + node
				}
				r.stays(res, in, o.Name(), why, o)
			}
			return
		}
		if len(all) > 0 {
			r.told.waiting(fmt.Sprintf("%d of %s to be gone: %s%s", len(all), res.Name, all[0].Name(), after(time.Since(began))))
		}
		if pauseFor(ctx, goneEvery) != nil {
			for _, o := range all {
				r.stays(res, in, o.Name(), "it is not known whether it is gone", o)
			}
			return
		}
	}
}

// queue removes the run's queue. A cluster without KAI has none.
func (r *remover) queue(ctx context.Context) {
	o, err := r.api.Read(ctx, resQueues, "", r.names.Queue)
	if err == nil {
		r.remove(ctx, resQueues, o, false, smallGoneWithin)
	} else if !kube.IsNotFound(err) && (r.queued || !kube.IsForbidden(err)) { // who needs none need not have the right
		r.stays(resQueues, "", r.names.Queue, "it could not be read: "+err.Error(), nil)
	}
}

// load removes what loaded and what was kept; with "", what is in no namespace alone.
func (r *remover) load(ctx context.Context, namespace string) {
	if namespace != "" {
		for _, o := range r.some(ctx, resJobs, namespace) {
			r.removeJob(ctx, o)
		}
	}
	if !r.prepared {
		for _, res := range []kube.Resource{resClusterBinds, resClusterRoles} {
			for _, o := range r.rights(ctx, res, "") {
				r.remove(ctx, res, o, false, smallGoneWithin)
			}
		}
	}
	if namespace == "" {
		return
	}
	if !r.prepared {
		for _, res := range []kube.Resource{resRoleBindings, resRoles, resAccounts} {
			for _, o := range r.rights(ctx, res, namespace) {
				r.remove(ctx, res, o, false, smallGoneWithin)
			}
		}
	}
	// Who was given the roles of an earlier release may not look for reservations, which
	// expire by themselves.
	if leases, err := r.api.List(ctx, resLeases, namespace, r.selector()); err == nil {
		for _, o := range leases {
			r.remove(ctx, resLeases, o, false, smallGoneWithin)
		}
	}
	var kept kube.Object
	for _, o := range r.some(ctx, resConfigMaps, namespace) {
		if o.Name() == r.names.Kept {
			kept = o
			continue
		}
		r.remove(ctx, resConfigMaps, o, false, smallGoneWithin)
	}
	if len(r.left) > 0 {
		if kept != nil {
			r.stays(resConfigMaps, namespace, kept.Name(), "kept as long as something else of the run is left", kept)
		}
		return
	}
	if kept != nil {
		r.remove(ctx, resConfigMaps, kept, false, smallGoneWithin)
	}
}

// sharedSpace says that a namespace is the one that our runs share.
func sharedSpace(space kube.Object) bool {
	labels := space.Labels()
	return labels[LabelOwner] == OwnerValue && labels[LabelRun] == ""
}
