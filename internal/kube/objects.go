package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// The labels by which a run knows what it made.
const (
	LabelOwner = "aicr.run/owner"
	LabelRun   = "aicr.run/run"
)

// Create makes an object. Where the server was away meanwhile and has one of that name
// now, it is the run's own if its labels say so, and then it was made. One that may not
// be read (a Secret) cannot be told from another's: IsExists.
func (c *Cluster) Create(ctx context.Context, r Resource, o Object) (Object, error) {
	doing := "creating " + r.what(o.Namespace(), o.Name())
	path, err := r.path(o.Namespace())
	if err == nil {
		err = named(o.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	made, repeated, err := c.object(ctx, func() *rest.Request {
		return c.server.Post().AbsPath(path).Param("fieldManager", owner).SetHeader("Content-Type", "application/json").Body(body)
	})
	if repeated && IsExists(err) {
		there, unread := c.Read(ctx, r, o.Namespace(), o.Name())
		if unread == nil && sameRun(o, there) && !there.Deleting() {
			return there, nil
		}
	}
	return made, c.failed(doing, err, o)
}

// sameRun says whether both were made by one run.
func sameRun(a, b Object) bool {
	mine, theirs := a.Labels(), b.Labels()
	return mine[LabelOwner] != "" && mine[LabelRun] != "" && mine[LabelOwner] == theirs[LabelOwner] && mine[LabelRun] == theirs[LabelRun]
}

// Read reads an object.
func (c *Cluster) Read(ctx context.Context, r Resource, namespace, name string) (Object, error) {
	doing := "reading " + r.what(namespace, name)
	path, err := r.path(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	o, _, err := c.object(ctx, func() *rest.Request { return c.server.Get().AbsPath(path) })
	return o, c.failed(doing, err, nil)
}

// listAgain is how often a list is begun again that the server has forgotten half-way.
const listAgain = 5

// List reads all objects of a kind, in a namespace or, where it is "", in all; selector
// names labels, as kubectl does. It is all of them or an error, never some.
func (c *Cluster) List(ctx context.Context, r Resource, namespace, selector string) ([]Object, error) {
	var all []Object
	err := c.each(ctx, r, namespace, selector, func() { all = nil }, func(item json.RawMessage, kind, version string) error {
		var o Object
		if err := kjson.Unmarshal(item, &o); err != nil {
			return fmt.Errorf("an item is no object: %w", err)
		}
		if o == nil {
			return errors.New("an item is no object")
		}
		if !o.Has("kind") { // which lists of Kubernetes' own kinds leave out
			o["kind"], o["apiVersion"] = kind, version
		}
		all = append(all, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// each gives all objects of a kind, one after the other; begin is called before the first,
// and again where the list is begun again.
func (c *Cluster) each(ctx context.Context, r Resource, namespace, selector string, begin func(), take func(item json.RawMessage, kind, version string) error) error {
	doing := "listing " + r.what(namespace, "")
	path, err := r.path(namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return c.eachIn(ctx, path, selector, "application/json", doing, begin, take)
}

// eachIn is each of a path, with what the server is to send of each object.
func (c *Cluster) eachIn(ctx context.Context, path, selector, accept, doing string, begin func(), take func(item json.RawMessage, kind, version string) error) error {
	for begun := 1; ; begun++ {
		begin()
		err := c.eachPage(ctx, path, selector, accept, take)
		if err == nil {
			return nil
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) || begun == listAgain {
			return c.failed(doing, err, nil)
		}
	}
}

func (c *Cluster) eachPage(ctx context.Context, path, selector, accept string, take func(item json.RawMessage, kind, version string) error) error {
	seen := map[string]bool{}
	for next := ""; ; {
		var page struct {
			Kind       string `json:"kind"`
			APIVersion string `json:"apiVersion"`
			Metadata   struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items *[]json.RawMessage `json:"items"`
		}
		_, err := c.persist(ctx, func(ctx context.Context) error {
			q := c.server.Get().AbsPath(path).Param("limit", strconv.Itoa(pageSize))
			if selector != "" {
				q = q.Param("labelSelector", selector)
			}
			if next != "" {
				q = q.Param("continue", next)
			}
			data, err := c.askFor(ctx, q, accept)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(data, &page); err != nil {
				return fmt.Errorf("the answer is no list: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if page.Items == nil {
			return errors.New("the answer is no list")
		}
		for _, item := range *page.Items {
			if err := take(item, strings.TrimSuffix(page.Kind, "List"), page.APIVersion); err != nil {
				return err
			}
		}
		next = page.Metadata.Continue
		if next == "" {
			return nil
		}
		if seen[next] {
			return errors.New("the server gives the same page again and again")
		}
		seen[next] = true
	}
}

// Apply makes an object so, whether it is there or not, and whoever else has written to
// it. What an earlier Apply has set and this one does not is taken away.
func (c *Cluster) Apply(ctx context.Context, r Resource, o Object) (Object, error) {
	doing := "applying " + r.what(o.Namespace(), o.Name())
	path, err := r.path(o.Namespace(), o.Name())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	applied, _, err := c.object(ctx, func() *rest.Request {
		return c.server.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", owner).Param("force", "true").Body(body)
	})
	return applied, c.failed(doing, err, o)
}

// Patch changes what is named of an object, nil taking it away, and leaves the rest
// (RFC 7386). With a resourceVersion in it, it changes that one alone: IsConflict.
func (c *Cluster) Patch(ctx context.Context, r Resource, namespace, name string, change Object) (Object, error) {
	doing := "changing " + r.what(namespace, name)
	path, err := r.path(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	changed, _, err := c.object(ctx, func() *rest.Request {
		return c.server.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", owner).Body(body)
	})
	return changed, c.failed(doing, err, change)
}

// Delete deletes an object. One that is not there is an error, IsNotFound, unless a try
// before may have deleted it; one that is not the one that is meant is another, IsConflict.
// That it has gone is not waited for.
func (c *Cluster) Delete(ctx context.Context, r Resource, namespace, name string, o DeleteOptions) error {
	doing := "deleting " + r.what(namespace, name)
	path, err := r.path(namespace, name)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	options := Object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
	if o.Foreground {
		options["propagationPolicy"] = "Foreground"
	}
	only := Object{}
	if o.UID != "" {
		only["uid"] = o.UID
	}
	if o.ResourceVersion != "" {
		only["resourceVersion"] = o.ResourceVersion
	}
	if len(only) > 0 {
		options["preconditions"] = only
	}
	if o.Grace != 0 {
		options["gracePeriodSeconds"] = int64(max(0, o.Grace+time.Second-1) / time.Second)
	}
	body, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	repeated, err := c.persist(ctx, func(ctx context.Context) error {
		_, err := c.ask(ctx, c.server.Delete().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body))
		return err
	})
	if repeated && IsNotFound(err) {
		return nil
	}
	return c.failed(doing, err, nil)
}

// object asks until it is answered with an object.
func (c *Cluster) object(ctx context.Context, request func() *rest.Request) (o Object, repeated bool, err error) {
	repeated, err = c.persist(ctx, func(ctx context.Context) error {
		data, err := c.ask(ctx, request())
		if err != nil {
			return err
		}
		if err := kjson.Unmarshal(data, &o); err != nil || o == nil {
			return errors.New("the answer is no object")
		}
		return nil
	})
	if err != nil {
		return nil, repeated, err
	}
	return o, repeated, nil
}

// failed is an error that can be shown, with what was being done. What a Secret has in it
// is not shown either, should the server have repeated it.
func (c *Cluster) failed(doing string, err error, sent Object) error {
	if err == nil {
		return nil
	}
	hiding := c
	if hidden := secretsIn(sent); len(hidden) > 0 {
		hiding = &Cluster{secrets: slices.Concat(hidden, c.secrets)}
	}
	return fmt.Errorf("%s: %w", doing, hiding.plain(err))
}

func secretsIn(o Object) []string {
	var all []string
	if o.Text("kind") == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			for _, value := range o.words(field) {
				if value != "" {
					all = append(all, value)
				}
			}
		}
	}
	return all
}

// path is where a resource, or an object of it, is. In the end a word that is none would
// be part of the way to another thing.
func (r Resource) path(namespace string, more ...string) (string, error) {
	steps := []string{"", "apis", r.Group, r.Version}
	if r.Group == "" {
		steps = []string{"", "api", r.Version}
	}
	if namespace != "" {
		steps = append(steps, "namespaces", namespace)
	}
	steps = append(steps, r.Name)
	steps = append(steps, more...)
	for _, step := range steps[1:] {
		if err := named(step); err != nil {
			return "", err
		}
	}
	return strings.Join(steps, "/"), nil
}

func named(word string) error {
	if word == "" {
		return errors.New("it has no name, or its kind has none")
	}
	if wrong := rest.IsValidPathSegmentName(word); len(wrong) > 0 {
		return fmt.Errorf("%q is no name: it %s", word, strings.Join(wrong, ", it "))
	}
	return nil
}

// what names an object, or all of a kind, for people.
func (r Resource) what(namespace, name string) string {
	what := r.Name
	if r.Group != "" {
		what += "." + r.Group
	}
	switch {
	case namespace != "" && name != "":
		what += " " + namespace + "/" + name
	case name != "":
		what += " " + name
	case namespace != "":
		what += " in " + namespace
	}
	return what
}
