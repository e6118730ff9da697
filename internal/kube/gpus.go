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

// every reads what matters of all objects of a kind.
func every[T any](ctx context.Context, c *Cluster, r Resource, all *[]T) error {
	return c.each(ctx, r, "", "", func() { *all = nil }, func(item json.RawMessage, kind, _ string) error {
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
