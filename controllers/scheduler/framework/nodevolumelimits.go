package framework

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"flyball.dev/controllers/internal/volume"
)

// nodeVolumeLimits rejects nodes that can attach no more volumes of a driver, and nodes without a driver that pods need.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.Filter
type nodeVolumeLimits struct {
	volumes map[attachable]bool // of the pod
	status  *Status             // rejects all nodes, if not nil
}

// attachable is a volume of a driver.
type attachable struct{ driver, handle string }

var tooManyVolumes = rejected("NodeVolumeLimits", "node(s) exceed max volume count")

func (*nodeVolumeLimits) name() string { return "NodeVolumeLimits" }

//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.PreFilter
func (l *nodeVolumeLimits) preFilter(c *cycle) preFilterResult {
	l.volumes = map[attachable]bool{}
	used := false
	for i := range c.info.volumes {
		name := l.claimName(c.info, &c.info.volumes[i])
		if name == "" {
			continue
		}
		used = true
		claim := c.Objects.claims[claimKey(c.pod.Namespace, name)]
		if claim == nil {
			l.status = unresolvable(l.name(), fmt.Sprintf("looking up PVC %s/%s: persistentvolumeclaim %q not found", c.pod.Namespace, name, name))
			break
		}
		if v, ok := attached(c.Objects, claim); ok {
			l.volumes[v] = true
		}
	}
	return preFilterResult{skip: !used}
}

func (*nodeVolumeLimits) claimName(p *Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// attached returns the volume of a claim, or the one that is to be provisioned for it.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.getCSIDriverInfo
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.getCSIDriverInfoFromSC
func attached(o *Objects, claim *corev1.PersistentVolumeClaim) (attachable, bool) {
	if v := o.volumes[claim.Spec.VolumeName]; v != nil {
		if v.Spec.CSI == nil {
			return attachable{}, false
		}
		return attachable{v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle}, v.Spec.CSI.Driver != "" && v.Spec.CSI.VolumeHandle != ""
	}
	class := o.classes[volume.ClassOf(claim)]
	if class == nil || class.Provisioner == "" {
		return attachable{}, false
	}
	return attachable{class.Provisioner, "\x00" + claimKey(claim.Namespace, claim.Name)}, true
}

// filter counts the volumes that the node has, and the ones that come with the pod.
func (l *nodeVolumeLimits) filter(c *cycle, n *Node) *Status {
	if l.status != nil {
		return l.status
	}
	if len(l.volumes) == 0 {
		return nil
	}
	csi := c.Objects.csiNodes[n.name]
	for v := range l.volumes {
		if !installed(c.Objects, v.driver, csi) {
			return rejected(l.name(), v.driver+" CSI driver is not installed on the node")
		}
	}
	limits := volumeLimits(csi)
	if len(limits) == 0 {
		return nil
	}
	counts, added := map[string]int64{}, map[string]int64{}
	onNode := l.onNode(c, n)
	for v := range onNode {
		counts[v.driver]++
	}
	for v := range l.volumes {
		if !onNode[v] { // as in kube-scheduler, a volume that is attached and has no pod there counts twice
			added[v.driver]++
		}
	}
	for v := range attachedTo(c.Objects, n.name) {
		if !onNode[v] {
			counts[v.driver]++
		}
	}
	for driver, count := range added {
		if limit, ok := limits[driver]; ok && counts[driver]+count > limit {
			return tooManyVolumes
		}
	}
	return nil
}

// onNode returns the volumes of the pods of a node.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.filterAttachableVolumes
func (l *nodeVolumeLimits) onNode(c *cycle, n *Node) map[attachable]bool {
	present := map[attachable]bool{}
	for _, p := range n.pods {
		for i := range p.volumes {
			claim := c.Objects.claims[claimKey(p.Namespace, l.claimName(p, &p.volumes[i]))]
			if claim == nil {
				continue
			}
			if v, ok := attached(c.Objects, claim); ok {
				present[v] = true
			}
		}
	}
	return present
}

// attachedTo returns the volumes that are attached to a node.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.getNodeVolumeAttachmentInfo
func attachedTo(o *Objects, node string) map[attachable]bool {
	present := map[attachable]bool{}
	for _, a := range o.attachments {
		if a.Spec.NodeName != node || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if v := o.volumes[*a.Spec.Source.PersistentVolumeName]; v != nil && v.Spec.CSI != nil {
			present[attachable{a.Spec.Attacher, v.Spec.CSI.VolumeHandle}] = true
		}
	}
	return present
}

// installed reports whether a driver is on a node, or need not be.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.CSILimits.checkCSIDriverOnNode
func installed(o *Objects, name string, node *storagev1.CSINode) bool {
	driver := o.drivers[name]
	if driver == nil || driver.Spec.PreventPodSchedulingIfMissing == nil || !*driver.Spec.PreventPodSchedulingIfMissing {
		return true
	}
	if node == nil {
		return false
	}
	for i := range node.Spec.Drivers {
		if node.Spec.Drivers[i].Name == name {
			return true
		}
	}
	return false
}

// volumeLimits returns how many volumes of each driver a node can attach.
//
//upstream:pkg/scheduler/framework/plugins/nodevolumelimits.getVolumeLimits
func volumeLimits(node *storagev1.CSINode) map[string]int64 {
	if node == nil {
		return nil
	}
	limits := map[string]int64{}
	for i := range node.Spec.Drivers {
		if a := node.Spec.Drivers[i].Allocatable; a != nil && a.Count != nil {
			limits[node.Spec.Drivers[i].Name] = int64(*a.Count)
		}
	}
	return limits
}
