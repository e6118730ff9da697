package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

const resourceClaims = "resourceclaims"

// GPUs is every node, by name, with its GPUs and who holds them. It is read whole, or not
// at all: half a ledger would call GPUs free that are not.
func (c *Cluster) GPUs(ctx context.Context) ([]GPUNode, error) {
	served, err := c.Served(ctx, groupDRA)
	if err != nil {
		return nil, err
	}
	var l ledger
	lists := []func() error{
		func() error { return every(ctx, c, Resource{"", "v1", "nodes"}, &l.nodes) },
		func() error { return every(ctx, c, pods, &l.pods) },
	}
	if version := served.Version(groupDRA, resourceSlices, draVersions...); version != "" {
		lists = append(lists,
			func() error { return every(ctx, c, Resource{groupDRA, version, resourceSlices}, &l.slices) },
			func() error { return every(ctx, c, Resource{groupDRA, version, resourceClaims}, &l.claims) })
	}
	if err := parallel(len(lists), func(i int) error { return lists[i]() }); err != nil {
		return nil, err
	}
	return l.balance()
}

// Unseen is what a ledger is without, since the user may not read it.
type Unseen struct {
	Nodes   bool // and what the device plugin offers on them
	Devices bool // that DRA offers
	Holders bool // in other namespaces
}

// GPUsSeen is GPUs for who may not read all of it: of nodes the named one will do, and of who
// holds GPUs those in a namespace. What could not be read is told, and never taken for none.
func (c *Cluster) GPUsSeen(ctx context.Context, namespace, node string) ([]GPUNode, Unseen, error) {
	var l ledger
	var not Unseen
	served, err := c.Served(ctx, groupDRA)
	if err != nil {
		return nil, not, err
	}
	if not.Nodes, err = unlessForbidden(every(ctx, c, Resource{"", "v1", "nodes"}, &l.nodes)); not.Nodes && node != "" {
		not.Nodes, err = c.oneNode(ctx, node, &l)
	}
	if err != nil {
		return nil, not, err
	}
	if not.Holders, err = unlessForbidden(every(ctx, c, pods, &l.pods)); not.Holders {
		err = everyIn(ctx, c, pods, namespace, &l.pods)
	}
	if err != nil {
		return nil, not, err
	}
	version := served.Version(groupDRA, resourceSlices, draVersions...)
	if version == "" {
		all, err := l.balance()
		return all, not, err
	}
	if not.Devices, err = unlessForbidden(every(ctx, c, Resource{groupDRA, version, resourceSlices}, &l.slices)); err != nil {
		return nil, not, err
	}
	forbidden, err := unlessForbidden(every(ctx, c, Resource{groupDRA, version, resourceClaims}, &l.claims))
	if forbidden {
		not.Holders = true
		_, err = unlessForbidden(everyIn(ctx, c, Resource{groupDRA, version, resourceClaims}, namespace, &l.claims))
	}
	if err != nil {
		return nil, not, err
	}
	all, err := l.balance()
	return all, not, err
}

// oneNode reads the one node that is named.
func (c *Cluster) oneNode(ctx context.Context, name string, l *ledger) (forbidden bool, err error) {
	o, err := c.Read(ctx, Resource{"", "v1", "nodes"}, "", name)
	if IsForbidden(err) {
		return true, nil
	}
	if IsNotFound(err) {
		return false, nil // as if it were not in the list
	}
	if err != nil {
		return false, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	one, err := fieldsOf[ledgerNode](data, "Node")
	l.nodes = append(l.nodes, one)
	return false, err
}

func unlessForbidden(err error) (bool, error) {
	if IsForbidden(err) {
		return true, nil
	}
	return false, err
}

// every reads what matters of all objects of a kind.
func every[T any](ctx context.Context, c *Cluster, r Resource, all *[]T) error {
	return everyIn(ctx, c, r, "", all)
}

// everyIn is every in a namespace.
func everyIn[T any](ctx context.Context, c *Cluster, r Resource, namespace string, all *[]T) error {
	return c.each(ctx, r, namespace, "", func() { *all = nil }, func(item json.RawMessage, kind, _ string) error {
		one, err := fieldsOf[T](item, kind)
		*all = append(*all, one)
		return err
	})
}

// fieldsOf is what matters of an object; the error names it.
func fieldsOf[T any](item json.RawMessage, kind string) (T, error) {
	var one T
	err := json.Unmarshal(item, &one)
	if err == nil {
		return one, nil
	}
	var whose struct {
		Metadata struct{ Namespace, Name string } `json:"metadata"`
	}
	_ = json.Unmarshal(item, &whose) // a name that cannot be read either is ""
	if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s cannot be of type %s", shape.Field, shape.Value)
	}
	return one, fmt.Errorf("%s %s: %w", kind, join(whose.Metadata.Namespace, whose.Metadata.Name), err)
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
