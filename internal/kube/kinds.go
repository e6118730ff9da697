package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
)

// Kind is a kind of object that is in namespaces and can be listed.
type Kind struct {
	Resource
	Kind string // Pod
}

// String names the kind as kubectl does: Pod, Queue.scheduling.run.ai.
func (k Kind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// UndiscoveredError says that the server could not say which kinds a part of its API has, as
// where the server of an aggregated API is down.
type UndiscoveredError struct {
	API   string // metrics.k8s.io/v1beta1
	cause error
}

func (e *UndiscoveredError) Error() string {
	return "asking which kinds " + e.API + " has: " + e.cause.Error()
}
func (e *UndiscoveredError) Unwrap() error { return e.cause }

// NamespacedKinds are all kinds that the server has in namespaces and can list, each once, in
// its preferred version. A part of the API that does not say what it has is in unread: what
// is in it is unknown.
func (c *Cluster) NamespacedKinds(ctx context.Context) (kinds []Kind, unread []error, err error) {
	var groups metav1.APIGroupList
	err = c.discovery(ctx, "/apis", &groups)
	if err == nil && groups.Groups == nil {
		err = errors.New("the answer is no list of groups")
	}
	if err != nil {
		return nil, nil, c.failed("asking which kinds there are", err, nil)
	}
	apis := []apiVersion{{"", "v1"}}
	for _, g := range groups.Groups {
		if first := g.PreferredVersion.Version; first != "" {
			apis = append(apis, apiVersion{g.Name, first})
		}
		for _, v := range g.Versions {
			if v.Version != g.PreferredVersion.Version {
				apis = append(apis, apiVersion{g.Name, v.Version})
			}
		}
	}
	lists := make([]metav1.APIResourceList, len(apis))
	failures := make([]error, len(apis))
	_ = parallel(len(apis), func(i int) error { // each failure is kept with its API
		err := c.discoverySoon(ctx, apis[i].path(), &lists[i])
		if err == nil && lists[i].APIResources == nil {
			err = errors.New("the answer is no list")
		}
		if IsNotFound(err) && apis[i].group != "" { // it has just gone, and with it what was in it
			err = nil
		}
		failures[i] = err
		return nil
	})
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	seen := map[[2]string]bool{}
	for i, api := range apis {
		if failures[i] != nil {
			unread = append(unread, &UndiscoveredError{api.String(), c.plain(failures[i])})
			continue
		}
		for _, one := range lists[i].APIResources {
			id := [2]string{api.group, one.Name}
			if strings.Contains(one.Name, "/") || !one.Namespaced || !slices.Contains(one.Verbs, "list") || seen[id] {
				continue
			}
			seen[id] = true
			kinds = append(kinds, Kind{Resource{api.group, api.version, one.Name}, one.Kind})
		}
	}
	return kinds, unread, nil
}

// apiVersion is a version of a group.
type apiVersion struct{ group, version string }

func (v apiVersion) String() string { return strings.TrimPrefix(v.group+"/"+v.version, "/") }

func (v apiVersion) path() string {
	if v.group == "" {
		return "/api/" + v.version
	}
	return "/apis/" + v.String()
}

// discoverySoon asks as discovery does, and not again: that one server behind the API server is
// down is no reason to wait for the API server.
func (c *Cluster) discoverySoon(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Limit, DefaultRequestTimeout))
	defer cancel()
	data, err := c.ask(klog.NewContext(ctx, klog.Logger{}), c.server.Get().AbsPath(path)) // client-go would write to standard error
	if err == nil {
		err = json.Unmarshal(data, answer)
	}
	return err
}

// metadataOnly asks a server for the metadata of objects and for nothing else of them.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// ListMetadata lists all objects of a kind in a namespace by their metadata alone: what is in
// a Secret is never sent.
func (c *Cluster) ListMetadata(ctx context.Context, k Kind, namespace string) ([]Object, error) {
	doing := "listing " + k.what(namespace, "")
	path, err := k.path(namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var all []Object
	err = c.eachIn(ctx, path, "", metadataOnly, doing, func() { all = nil }, func(item json.RawMessage, _, _ string) error {
		var o Object
		if err := kjson.Unmarshal(item, &o); err != nil || o == nil {
			return errors.New("an item is no object")
		}
		all = append(all, Object{"kind": k.Kind, "metadata": map[string]any(o.Map("metadata"))})
		return nil
	})
	return all, err
}
