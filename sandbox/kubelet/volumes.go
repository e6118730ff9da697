package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"aicr/sandbox/network"
	"aicr/sandbox/shim"
)

// files are what a volume shows.
type files = map[string]volumeutil.FileProjection

// token is one that a volume shows.
type token struct {
	text  string
	renew time.Time
}

// mountAll makes the pod's volumes. An error comes with the volume's name.
func (r *podRun) mountAll() (string, error) {
	for _, v := range r.current().Spec.Volumes {
		if err := r.mountOne(v); err != nil {
			return v.Name, err
		}
	}
	return "", nil
}

func (r *podRun) volumeDir(name string) string { return filepath.Join(r.dir, "volumes", name) }

func (r *podRun) mountOne(v v1.Volume) error {
	switch {
	case v.EmptyDir != nil:
		dir := r.volumeDir(v.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return os.Chmod(dir, 0o777)
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		_, err := r.claimDir(v)
		return err
	case v.HostPath != nil:
		return errors.New("the sandbox refuses hostPath volumes: its nodes have no files of their own")
	}
	show, err := r.contents(v)
	if err != nil {
		return err
	}
	dir := r.volumeDir(v.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	writer, err := volumeutil.NewAtomicWriter(dir, r.id())
	if err != nil {
		return err
	}
	return writer.Write(show, nil)
}

// shown says whether a volume shows objects of the API, which may change.
func shown(v v1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// contents are the files of a volume that shows objects of the API.
func (r *podRun) contents(v v1.Volume) (files, error) {
	pod := r.current()
	out := files{}
	switch {
	case v.ConfigMap != nil:
		return out, r.n.showConfigMap(out, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, mode(v.ConfigMap.DefaultMode), optional(v.ConfigMap.Optional))
	case v.Secret != nil:
		return out, r.n.showSecret(out, pod.Namespace, v.Secret.SecretName, v.Secret.Items, mode(v.Secret.DefaultMode), optional(v.Secret.Optional))
	case v.DownwardAPI != nil:
		return out, r.showFields(out, pod, v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if err := r.project(out, pod, v.Name, s, mode(v.Projected.DefaultMode)); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, errors.New("a kind of volume that the sandbox does not know")
}

func (r *podRun) project(out files, pod *v1.Pod, volume string, s v1.VolumeProjection, perm int32) error {
	switch {
	case s.ConfigMap != nil:
		return r.n.showConfigMap(out, pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Items, perm, optional(s.ConfigMap.Optional))
	case s.Secret != nil:
		return r.n.showSecret(out, pod.Namespace, s.Secret.Name, s.Secret.Items, perm, optional(s.Secret.Optional))
	case s.DownwardAPI != nil:
		return r.showFields(out, pod, s.DownwardAPI.Items, perm)
	case s.ServiceAccountToken != nil:
		text, err := r.token(pod, volume, s.ServiceAccountToken)
		if err != nil {
			return err
		}
		out[s.ServiceAccountToken.Path] = volumeutil.FileProjection{Data: []byte(text), Mode: 0o600}
		return nil
	}
	return errors.New("a kind of projection that the sandbox does not know")
}

func mode(m *int32) int32 {
	if m == nil {
		return 0o644
	}
	return *m
}

func (c *cluster) showConfigMap(out files, namespace, name string, items []v1.KeyToPath, perm int32, maybe bool) error {
	m, err := c.freshConfigMap(namespace, name)
	if apierrors.IsNotFound(err) && maybe {
		return nil
	}
	if err != nil {
		return err
	}
	all := map[string][]byte{}
	for key, text := range m.Data {
		all[key] = []byte(text)
	}
	for key, data := range m.BinaryData {
		all[key] = data
	}
	return show(out, all, items, perm, maybe)
}

// freshConfigMap asks the API server, as a kubelet does for a pod that is new to it: what
// is known of a server that has just come back may be old.
func (c *cluster) freshConfigMap(namespace, name string) (*v1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	m, err := c.api.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return m, err
	}
	return c.configs.ConfigMaps(namespace).Get(name)
}

func (c *cluster) showSecret(out files, namespace, name string, items []v1.KeyToPath, perm int32, maybe bool) error {
	s, err := c.secrets.Secrets(namespace).Get(name)
	if apierrors.IsNotFound(err) && maybe {
		return nil
	}
	if err != nil {
		return err
	}
	return show(out, s.Data, items, perm, maybe)
}

func show(out files, all map[string][]byte, items []v1.KeyToPath, perm int32, maybe bool) error {
	if len(items) == 0 {
		for key, data := range all {
			out[key] = volumeutil.FileProjection{Data: data, Mode: perm}
		}
		return nil
	}
	for _, item := range items {
		data, there := all[item.Key]
		if !there {
			if maybe {
				continue
			}
			return fmt.Errorf("references non-existent config key: %s", item.Key)
		}
		own := perm
		if item.Mode != nil {
			own = *item.Mode
		}
		out[item.Path] = volumeutil.FileProjection{Data: data, Mode: own}
	}
	return nil
}

func (r *podRun) showFields(out files, pod *v1.Pod, items []v1.DownwardAPIVolumeFile, perm int32) error {
	r.mu.Lock()
	ip := r.ip
	r.mu.Unlock()
	for _, item := range items {
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = r.field(pod, ip, item.FieldRef.FieldPath)
		} else if item.ResourceFieldRef != nil {
			value, err = r.n.resourceField(pod, item.ResourceFieldRef, item.ResourceFieldRef.ContainerName)
		}
		if err != nil {
			return err
		}
		own := perm
		if item.Mode != nil {
			own = *item.Mode
		}
		out[item.Path] = volumeutil.FileProjection{Data: []byte(value), Mode: own}
	}
	return nil
}

// token asks for one, and again when four fifths of its time have passed.
func (r *podRun) token(pod *v1.Pod, volume string, want *v1.ServiceAccountTokenProjection) (string, error) {
	key := volume + "/" + want.Path
	r.mu.Lock()
	have, there := r.tokens[key]
	r.mu.Unlock()
	if there && time.Now().Before(have.renew) {
		return have.text, nil
	}
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef:    &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if want.Audience != "" {
		request.Spec.Audiences = []string{want.Audience}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := r.n.api.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		if there {
			return have.text, nil // the old one holds for a while
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	left := time.Until(got.Status.ExpirationTimestamp.Time)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[key] = token{got.Status.Token, time.Now().Add(left * 4 / 5)}
	return got.Status.Token, nil
}

// keepTokens renews the tokens of the pods before they end.
func (n *node) keepTokens(ctx context.Context) {
	for waitFor(ctx.Done(), time.Minute) {
		n.mu.Lock()
		var due []*podRun
		for _, r := range n.runs {
			r.mu.Lock()
			for _, t := range r.tokens {
				if time.Now().After(t.renew) && !closed(r.stop) {
					due = append(due, r)
					break
				}
			}
			r.mu.Unlock()
		}
		n.mu.Unlock()
		for _, r := range due {
			r.refresh()
		}
	}
}

// refresh brings the volumes of a namespace's pods up to date.
func (n *node) refresh(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.runs {
		if r.namespace == namespace && slices.ContainsFunc(r.current().Spec.Volumes, shown) {
			go r.refresh()
		}
	}
}

func (r *podRun) refresh() {
	r.mu.Lock()
	ready := r.sandbox && !closed(r.stop) && !closed(r.ended)
	r.mu.Unlock()
	if !ready {
		return
	}
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	for _, v := range r.current().Spec.Volumes {
		if !shown(v) {
			continue
		}
		if err := r.mountOne(v); err != nil {
			r.event(v1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed for volume %q : %v", v.Name, err)
		}
	}
}

// claimDir is the folder of a volume that was claimed.
func (r *podRun) claimDir(v v1.Volume) (string, error) {
	pod := r.current()
	name := ""
	if v.PersistentVolumeClaim != nil {
		name = v.PersistentVolumeClaim.ClaimName
	} else {
		name = pod.Name + "-" + v.Name
	}
	claim, err := r.n.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return "", err
	}
	if claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "" {
		return "", fmt.Errorf("PVC %s/%s is not bound", claim.Namespace, claim.Name)
	}
	volume, err := r.n.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	if volume.Spec.HostPath == nil || !within(filepath.Join(r.n.Dir, "volumes"), volume.Spec.HostPath.Path) {
		return "", fmt.Errorf("the volume %s is not one of the sandbox's", volume.Name)
	}
	dir := volume.Spec.HostPath.Path
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777)
}

func within(dir, path string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != "." && rest != ".." && !strings.HasPrefix(rest, "../")
}

// mounts are the container's, with the files that every container has.
func (c *container) mounts(values map[string]string) ([]shim.Mount, error) {
	pod := c.r.current()
	all := []shim.Mount{
		{Source: filepath.Join(c.r.dir, "hosts"), Target: "/etc/hosts"},
		{Source: filepath.Join(c.r.dir, "resolv.conf"), Target: "/etc/resolv.conf"},
	}
	for _, m := range c.spec.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("volume %q is not one of the pod's", m.Name)
		}
		v := pod.Spec.Volumes[i]
		source, writable := c.r.volumeDir(v.Name), !shown(v)
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			dir, err := c.r.claimDir(v)
			if err != nil {
				return nil, err
			}
			source = dir
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly {
				writable = false
			}
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expansion.Expand(m.SubPathExpr, expansion.MappingFuncFor(values))
		}
		if sub != "" {
			path, err := subPath(source, sub, writable)
			if err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.spec.Name, err)
			}
			source = path
		}
		all = append(all, shim.Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly || !writable})
	}
	return all, nil
}

// subPath is a part of a volume. Where the volume may be written, it is made.
func subPath(volume, sub string, writable bool) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("%q leads out of the volume", sub)
	}
	path := filepath.Join(volume, sub)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && writable {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	top, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", err
	}
	if real != top && !within(top, real) {
		return "", fmt.Errorf("%q leads out of the volume", sub)
	}
	return real, nil
}

// writeNames writes the files by which the pod finds others, and itself.
func (r *podRun) writeNames(pod *v1.Pod) error {
	hosts := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost\n" + r.ip + "\t" + hostname(pod)
	if pod.Spec.Subdomain != "" {
		hosts = strings.TrimSuffix(hosts, hostname(pod)) + hostname(pod) + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc.cluster.local\t" + hostname(pod)
	}
	hosts += "\n"
	for _, a := range pod.Spec.HostAliases {
		hosts += a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n"
	}
	if err := os.WriteFile(filepath.Join(r.dir, "hosts"), []byte(hosts), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, "resolv.conf"), []byte(network.ResolvConf(pod.Namespace)), 0o644)
}
