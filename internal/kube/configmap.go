package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"aicr/internal/spec"
)

// MaxConfigMap is what Kubernetes takes in one ConfigMap, in bytes.
const MaxConfigMap = 1 << 20

// The keys under which a snapshot lies in a ConfigMap, as upstream's tools write them.
const (
	snapshotYAML = "snapshot.yaml"
	snapshotJSON = "snapshot.json"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
	owner          = "aicr"
)

// Kept is a snapshot as it is kept in a ConfigMap.
type Kept struct {
	Format  string // yaml or json
	Data    []byte
	Now     time.Time
	Version string // of the program
}

// TooLargeError says that a document does not fit into a ConfigMap.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the snapshot has %d kB, and a ConfigMap takes %d", (e.Size+1023)/1024, MaxConfigMap/1024)
}

// ForeignError says that a ConfigMap of that name is somebody else's.
type ForeignError struct{ Namespace, Name string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("ConfigMap %s/%s is there already, and is not one that aicr wrote", e.Namespace, e.Name)
}

// WriteConfigMap keeps a snapshot on the cluster. It writes over one that aicr wrote, and
// never over another.
func WriteConfigMap(ctx context.Context, c *Cluster, namespace, name string, k Kept) error {
	data := map[string]string{"snapshot." + k.Format: string(k.Data), "format": k.Format, "timestamp": k.Now.UTC().Format(time.RFC3339)}
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if size > MaxConfigMap {
		return &TooLargeError{size}
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultRequestTimeout)
	defer cancel()
	path := configMapPath(namespace, name)
	var there configMapFields
	switch err := c.get(ctx, path, metav1.ListOptions{}, &there); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return c.plain(err)
	case there.Labels[labelName] != owner:
		return &ForeignError{namespace, name}
	}
	whole, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": name, "namespace": namespace,
			"labels": map[string]string{labelName: owner, labelComponent: spec.SnapshotKind, labelVersion: labelValue(k.Version)}},
	})
	if err != nil {
		return err
	}
	// Applied, so that what it replaces is replaced at once, with all its keys.
	result, err := c.within(ctx, c.server.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", owner).Param("force", "true").Body(whole))
	if err != nil {
		return c.plain(err)
	}
	return c.plain(result.Error())
}

type configMapFields struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func configMapPath(namespace, name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/configmaps/" + url.PathEscape(name)
}

var notInLabel = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labelValue makes a version one that a label takes.
func labelValue(version string) string {
	version = notInLabel.ReplaceAllString(version, "-")
	return version[:min(len(version), 63)]
}

// ReadConfigMap reads a snapshot that was kept on the cluster.
func ReadConfigMap(ctx context.Context, c *Cluster, namespace, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultRequestTimeout)
	defer cancel()
	var there configMapFields
	if err := c.get(ctx, configMapPath(namespace, name), metav1.ListOptions{}, &there); err != nil {
		return nil, c.plain(err)
	}
	for _, key := range []string{snapshotYAML, snapshotJSON} {
		if text, ok := there.Data[key]; ok {
			return []byte(text), nil
		}
	}
	return nil, fmt.Errorf("ConfigMap %s/%s has no key %s", namespace, name, snapshotYAML)
}
