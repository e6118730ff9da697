package graph

import (
	"fmt"
	"strings"
	"time"
)

// A provisioner that fails once tries again; who waits for a provisioner that is not
// there waits for ever.
const (
	provisionLasts = 30 * time.Second
	bindingLasts   = 10 * time.Second
)

// noProvisioner is what a storage class has whose volumes somebody makes by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// volumeUnbound finds that the volume of the model is not to be had. That it waits for
// its first consumer is how it should be.
func volumeUnbound(s *Scene) []Cause {
	v := s.Volume
	phase := v.Text("status", "phase")
	if v == nil || phase == "Bound" {
		return nil
	}
	c := Cause{Reason: "VolumeUnbound", Source: "PersistentVolumeClaim " + v.Name(),
		Advice: []string{"`kubectl describe pvc " + v.Name() + " -n " + v.Namespace() + "`, `kubectl get storageclasses`"}}
	if phase == "Lost" {
		c.Text = "the volume behind it is lost"
		return []Cause{c}
	}
	e := s.lastEvent(v, "PersistentVolumeClaim", "ProvisioningFailed", "FailedBinding", "ExternalProvisioning", "WaitForFirstConsumer", "WaitForPodScheduled", "Provisioning", "ProvisioningSucceeded")
	switch e.Text("reason") {
	case "ProvisioningFailed":
		c.After = provisionLasts
	case "FailedBinding":
		c.After = bindingLasts
	case "ExternalProvisioning", "Provisioning":
		if strings.Contains(e.Text("message"), noProvisioner) {
			c.After = bindingLasts
			break
		}
		// Some complain once and then say no more than that they are at it.
		if failed := s.lastEvent(v, "PersistentVolumeClaim", "ProvisioningFailed"); failed != nil {
			e, c.After = failed, provisionLasts
		} else {
			c.After = volumeComes
		}
	default:
		return nil
	}
	class := v.Text("spec", "storageClassName")
	if class == "" {
		class = "none"
	}
	c.Text = sentence(fmt.Sprintf("%s, storage class %s: %s", phase, class, e.Text("message")), causeText)
	return []Cause{c}
}
