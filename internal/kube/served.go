package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Served are resources that can be asked for, without those below others.
type Served map[Resource]bool

// Version is the first of these versions that a resource is served in; "": in none.
func (s Served) Version(group, name string, wanted ...string) string {
	for _, version := range wanted {
		if s[Resource{group, version, name}] {
			return version
		}
	}
	return ""
}

// Served is what these groups ("" is the core) have, in every version. A group that is not
// there has nothing; that is so only where the server says that it is not there, and
// everything else is an error.
func (c *Cluster) Served(ctx context.Context, groups ...string) (Served, error) {
	found := make([]Served, len(groups))
	err := parallel(len(groups), func(i int) error {
		some, err := c.servedOf(ctx, groups[i])
		found[i] = some
		return err
	})
	if err != nil {
		return nil, err
	}
	all := Served{}
	for _, some := range found {
		maps.Copy(all, some)
	}
	return all, nil
}

func (c *Cluster) servedOf(ctx context.Context, group string) (Served, error) {
	all := Served{}
	versions := []string{"v1"}
	if group != "" {
		if err := named(group); err != nil {
			return nil, err
		}
		var known metav1.APIGroup
		err := c.discovery(ctx, "/apis/"+group, &known)
		if IsNotFound(err) {
			return all, nil
		}
		if err != nil {
			return nil, c.failed("asking what "+group+" is served in", err, nil)
		}
		if len(known.Versions) == 0 {
			return nil, fmt.Errorf("asking what %s is served in: the answer has no version", group)
		}
		versions = nil
		for _, v := range known.Versions {
			versions = append(versions, v.Version)
		}
	}
	for _, version := range versions {
		path := "/api/" + version
		if group != "" {
			path = "/apis/" + group + "/" + version
		}
		var list metav1.APIResourceList
		err := c.discovery(ctx, path, &list)
		if IsNotFound(err) { // it has just gone
			continue
		}
		if err == nil && list.APIResources == nil {
			err = errors.New("the answer is no list")
		}
		if err != nil {
			return nil, c.failed("asking what "+strings.TrimPrefix(path, "/apis/")+" has", err, nil)
		}
		for _, one := range list.APIResources {
			if !strings.Contains(one.Name, "/") {
				all[Resource{group, version, one.Name}] = true
			}
		}
	}
	return all, nil
}

func (c *Cluster) discovery(ctx context.Context, path string, answer any) error {
	_, err := c.persist(ctx, func(ctx context.Context) error {
		data, err := c.ask(ctx, c.server.Get().AbsPath(path))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, answer); err != nil {
			return fmt.Errorf("the answer is no JSON of its kind: %w", err)
		}
		return nil
	})
	return err
}
