package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// volumeRestrictions rejects nodes that have a pod with a disk of the pod, and all nodes while another pod uses a claim that is for
// one pod.
//
//upstream:pkg/scheduler/framework/plugins/volumerestrictions.VolumeRestrictions.Filter
type volumeRestrictions struct {
	disks     []*corev1.Volume
	exclusive sets.Set[string] // the names of the pod's claims that are for one pod
	conflicts int              // the number of uses of them
}

var (
	diskInUse              = rejected("VolumeRestrictions", "node(s) had no available disk")
	claimInUse             = rejected("VolumeRestrictions", "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")
	_          podObserver = (*volumeRestrictions)(nil)
)

func (*volumeRestrictions) name() string { return "VolumeRestrictions" }

// isRestricted reports whether a volume is a disk that pods may not share.
//
//upstream:pkg/scheduler/framework/plugins/volumerestrictions.needsRestrictionsCheck
func isRestricted(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

//upstream:pkg/scheduler/framework/plugins/volumerestrictions.VolumeRestrictions.PreFilter
//upstream:pkg/scheduler/framework/plugins/volumerestrictions.VolumeRestrictions.readWriteOncePodPVCsForPod
func (r *volumeRestrictions) preFilter(c *cycle) preFilterResult {
	r.exclusive = sets.New[string]()
	for i := range c.info.volumes {
		v := &c.info.volumes[i]
		if isRestricted(v) {
			r.disks = append(r.disks, v)
		}
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim := c.Objects.claims[claimKey(c.pod.Namespace, name)]
		if claim == nil {
			return preFilterResult{status: notFound(r.name(), "persistentvolumeclaim", name)}
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && !r.exclusive.Has(name) {
			r.exclusive.Insert(name)
			if c.claims[claimKey(c.pod.Namespace, name)] > 0 {
				r.conflicts++
			}
		}
	}
	return preFilterResult{skip: len(r.disks) == 0 && r.conflicts == 0}
}

//upstream:pkg/scheduler/framework/plugins/volumerestrictions.preFilterState.updateWithPod
func (r *volumeRestrictions) podChanged(_ *cycle, p *Pod, _ *Node, by int) {
	for i := range p.volumes {
		if claim := p.volumes[i].PersistentVolumeClaim; claim != nil && r.exclusive.Has(claim.ClaimName) {
			r.conflicts += by
		}
	}
}

func (r *volumeRestrictions) filter(_ *cycle, n *Node) *Status {
	for _, v := range r.disks {
		for _, p := range n.pods {
			if slices.ContainsFunc(p.volumes, func(o corev1.Volume) bool { return sameDisk(v, &o) }) {
				return diskInUse
			}
		}
	}
	if r.conflicts > 0 {
		return claimInUse
	}
	return nil
}

// sameDisk reports whether two volumes are one disk, and one of them may write.
//
//upstream:pkg/scheduler/framework/plugins/volumerestrictions.isVolumeConflict
func sameDisk(a, b *corev1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		return a.GCEPersistentDisk.PDName == b.GCEPersistentDisk.PDName && !(a.GCEPersistentDisk.ReadOnly && b.GCEPersistentDisk.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		return sets.New(a.RBD.CephMonitors...).HasAny(b.RBD.CephMonitors...) && a.RBD.RBDPool == b.RBD.RBDPool &&
			a.RBD.RBDImage == b.RBD.RBDImage && !(a.RBD.ReadOnly && b.RBD.ReadOnly)
	}
	return false
}
