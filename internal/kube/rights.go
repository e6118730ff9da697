package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
)

// Right is a thing that a user may do, or not.
type Right struct {
	Verb        string
	Group       string // "" is the core
	Resource    string // pods
	Subresource string // log; "": the thing itself
	Namespace   string // "": all of them, or the thing is in none
	Name        string // "": any
}

// String is the right as people say it: create pods/exec in aicr-validation.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// Allowed asks the server about each of these rights, and gives those that the user does
// not have, in their order. That the server cannot say is an error, never a yes.
func (c *Cluster) Allowed(ctx context.Context, rights []Right) (missing []Right, err error) {
	allowed := make([]bool, len(rights))
	err = parallel(len(rights), func(i int) error {
		yes, err := c.allowed(ctx, rights[i])
		allowed[i] = yes
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, r := range rights {
		if !allowed[i] {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

func (c *Cluster) allowed(ctx context.Context, r Right) (bool, error) {
	doing := "asking whether one may " + r.String()
	about := Object{"verb": r.Verb, "group": r.Group, "resource": r.Resource}
	for key, word := range map[string]string{"subresource": r.Subresource, "namespace": r.Namespace, "name": r.Name} {
		if word != "" {
			about[key] = word
		}
	}
	body, err := json.Marshal(Object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": Object{"resourceAttributes": about}})
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	said, _, err := c.object(ctx, func() *rest.Request {
		return c.server.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").SetHeader("Content-Type", "application/json").Body(body)
	})
	if err == nil && said.Map("status") == nil {
		err = errors.New("the answer says neither yes nor no")
	}
	return said.Bool("status", "allowed"), c.failed(doing, err, nil)
}

// parallel does n things, a few at a time, and gives the first error in their order.
func parallel(n int, do func(i int) error) error {
	const together = 8
	var group sync.WaitGroup
	free := make(chan struct{}, together)
	failures := make([]error, n)
	for i := range n {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			failures[i] = do(i)
		})
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
