package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

const (
	storageClass = "sandbox"
	provisioner  = "sandbox.aicr.run/folder"

	annotationDefault     = "storageclass.kubernetes.io/is-default-class"
	annotationProvisioner = "volume.kubernetes.io/storage-provisioner"
	annotationNode        = "volume.kubernetes.io/selected-node"
	annotationProvisioned = "pv.kubernetes.io/provisioned-by"
)

// classes makes what pods ask for by name: the class of storage, and that of GPUs.
func (c *cluster) classes(ctx context.Context) error {
	reclaim, wait := v1.PersistentVolumeReclaimDelete, storage.VolumeBindingWaitForFirstConsumer
	class := &storage.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: provisioner, ReclaimPolicy: &reclaim, VolumeBindingMode: &wait,
	}
	if c.Default {
		class.Annotations = map[string]string{annotationDefault: "true"}
	}
	if _, err := c.api.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the StorageClass %s: %w", storageClass, err)
	}
	if _, err := c.api.ResourceV1().DeviceClasses().Create(ctx, deviceClass(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the DeviceClass %s: %w", gpuDriverName, err)
	}
	return nil
}

// provision gives claims of our class their volumes, and removes what was released. The
// controller manager binds them.
func (c *cluster) provision(ctx context.Context) {
	news := make(chan struct{}, 1)
	poke := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() }}
	must(c.informers.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handler))
	must(c.informers.Core().V1().PersistentVolumes().Informer().AddEventHandler(handler))
	for {
		wait := make(<-chan time.Time)
		if err := c.provisionAll(ctx); err != nil && ctx.Err() == nil {
			c.Logf("volumes: %v", err)
			wait = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-wait:
		}
	}
}

func (c *cluster) provisionAll(ctx context.Context) error {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if wanted(claim) {
			if err := c.provisionOne(ctx, claim); err != nil {
				return err
			}
		}
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if v.Annotations[annotationProvisioned] == provisioner && v.Status.Phase == v1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil {
			if err := c.reclaim(ctx, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted says whether a claim waits for us: the controller manager writes down who has
// to provision, and, for a class that waits for a pod, the scheduler where.
func wanted(claim *v1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == v1.ClaimPending && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil &&
		claim.Annotations[annotationProvisioner] == provisioner && claim.Annotations[annotationNode] != ""
}

func (c *cluster) provisionOne(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	name := "pvc-" + string(claim.UID)
	if _, err := c.volumes.Get(name); err == nil {
		return nil
	}
	dir := filepath.Join(c.Dir, "volumes", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	says := c.recorder(provisioner, "")
	says.Eventf(claim, v1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name)
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisioned: provisioner}},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]}, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete, StorageClassName: *claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
			ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}},
		},
	}
	if _, err := c.api.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	says.Eventf(claim, v1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", name)
	return nil
}

func (c *cluster) reclaim(ctx context.Context, v *v1.PersistentVolume) error {
	if v.Spec.HostPath != nil && within(filepath.Join(c.Dir, "volumes"), v.Spec.HostPath.Path) {
		if err := os.RemoveAll(v.Spec.HostPath.Path); err != nil {
			return err
		}
	}
	err := c.api.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
