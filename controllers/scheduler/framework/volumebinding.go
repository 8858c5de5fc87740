package framework

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
)

// volumeBinding rejects nodes that cannot use the volumes of the pod, or for which a claim finds no volume. It prefers nodes on
// which much of the volumes or of the capacity is left.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding
type volumeBinding struct {
	bound, waiting []*corev1.PersistentVolumeClaim
	byNode         map[*Node]*Volumes
}

// Volumes are the volumes of a pod that are selected with its node.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.PodVolumes
type Volumes struct {
	Bindings   []Binding                       // claims to bind to volumes that exist
	Provisions []*corev1.PersistentVolumeClaim // claims to provision volumes for

	capacities []*storagev1.CSIStorageCapacity // of the provisions, nil where it is not known
}

// Binding is a claim and its volume.
type Binding struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

func (*volumeBinding) name() string  { return "VolumeBinding" }
func (*volumeBinding) weight() int64 { return 1 }

// on returns the volumes for a node, or nil if there is nothing to bind or provision.
func (b *volumeBinding) on(c *cycle, n *Node) *Volumes {
	v := b.byNode[n]
	if v == nil || len(v.Bindings)+len(v.Provisions) == 0 {
		return nil
	}
	return v
}

//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.PreFilter
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.podHasPVCs
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.GetPodVolumeClaims
func (b *volumeBinding) preFilter(c *cycle) preFilterResult {
	reject := func(reason string) preFilterResult { return preFilterResult{status: unresolvable(b.name(), reason)} }
	var used []*corev1.PersistentVolumeClaim
	for i := range c.info.volumes {
		claim, reason := claimOf(c, &c.info.volumes[i])
		if reason != "" {
			return reject(reason)
		}
		if claim != nil {
			used = append(used, claim)
		}
	}
	immediate := false
	for _, claim := range used {
		if IsBound(claim) {
			b.bound = append(b.bound, claim)
			continue
		}
		class := c.Objects.classes[volume.ClassOf(claim)]
		switch {
		case class == nil:
			immediate = true
		case class.VolumeBindingMode == nil:
			return preFilterResult{status: &Status{Plugin: b.name(), err: fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)}}
		case volume.WaitsForConsumer(class) && claim.Spec.VolumeName == "":
			b.waiting = append(b.waiting, claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return reject("pod has unbound immediate PersistentVolumeClaims")
	}
	b.byNode = map[*Node]*Volumes{}
	return preFilterResult{skip: len(used) == 0}
}

// claimOf returns the claim of a volume of the pod, or why the claim rejects all nodes. A volume without a claim has none.
func claimOf(c *cycle, v *corev1.Volume) (claim *corev1.PersistentVolumeClaim, reason string) {
	name := ""
	switch {
	case v.PersistentVolumeClaim != nil:
		name = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		name = podstate.EphemeralClaim(c.pod, v)
	default:
		return nil, ""
	}
	claim = c.Objects.claims[claimKey(c.pod.Namespace, name)]
	switch {
	case claim == nil && v.Ephemeral != nil:
		return nil, fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case claim == nil:
		return nil, fmt.Sprintf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
	}
	if v.Ephemeral != nil {
		if err := podstate.ForeignClaim(c.pod, claim); err != nil {
			return nil, err.Error()
		}
	}
	return claim, ""
}

// IsBound reports whether the binder has finished to bind a claim.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.isPVCFullyBound
func IsBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.BindCompleted)
}

//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.Filter
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.FindPodVolumes
func (b *volumeBinding) filter(c *cycle, n *Node) *Status {
	var reasons []string
	bound := b.checkBound(c, n)
	if bound == volumeElsewhere {
		reasons = append(reasons, "node(s) didn't match PersistentVolume's node affinity")
	}
	v, matched, sufficient, err := b.find(c, n)
	if err != nil {
		return &Status{Plugin: b.name(), err: err}
	}
	if !matched {
		reasons = append(reasons, "node(s) didn't find available persistent volumes to bind")
	}
	if !sufficient {
		reasons = append(reasons, "node(s) did not have enough free storage")
	}
	if bound == volumeMissing {
		reasons = append(reasons, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
	}
	if len(reasons) > 0 {
		return unresolvable(b.name(), reasons...)
	}
	b.byNode[n] = v
	return nil
}

// The states of the volumes of bound claims, for a node.
const (
	volumesUsable = iota
	volumeElsewhere
	volumeMissing
)

// checkBound returns the state of the first volume of a bound claim that a node cannot use.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.checkBoundClaims
func (b *volumeBinding) checkBound(c *cycle, n *Node) int {
	for _, claim := range b.bound {
		v := c.Objects.volumes[claim.Spec.VolumeName]
		if v == nil {
			return volumeMissing
		}
		if !volume.Admits(v, n.labelled) {
			return volumeElsewhere
		}
	}
	return volumesUsable
}

// find returns the volumes for a node. A claim with a selected node can have no other.
func (b *volumeBinding) find(c *cycle, n *Node) (v *Volumes, matched, sufficient bool, err error) {
	v = &Volumes{}
	var match, provision []*corev1.PersistentVolumeClaim
	for _, claim := range b.waiting {
		switch node, selected := claim.Annotations[volume.SelectedNode]; {
		case selected && node != n.name:
			return v, false, true, nil
		case selected:
			provision = append(provision, claim)
		default:
			match = append(match, claim)
		}
	}
	matched = true
	slices.SortStableFunc(match, func(x, y *corev1.PersistentVolumeClaim) int {
		size := x.Spec.Resources.Requests[corev1.ResourceStorage]
		return size.Cmp(y.Spec.Resources.Requests[corev1.ResourceStorage])
	})
	for _, claim := range match {
		if found := b.match(c, claim, n, v); found != nil {
			v.Bindings = append(v.Bindings, Binding{claim, found})
		} else {
			provision = append(provision, claim)
		}
	}
	for _, claim := range provision {
		if matched, sufficient, err = b.provision(c, claim, n, v); !matched || !sufficient || err != nil {
			return v, matched, sufficient, err
		}
	}
	return v, true, true, nil
}

// match returns the smallest volume for a claim that a node can use, or nil. A volume that is reserved for the claim comes first.
//
//upstream:k8s.io/component-helpers/storage/volume.FindMatchingVolume
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.findMatchingVolumes
func (b *volumeBinding) match(c *cycle, claim *corev1.PersistentVolumeClaim, n *Node, chosen *Volumes) *corev1.PersistentVolume {
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return nil
		}
	}
	var best *corev1.PersistentVolume
	for _, v := range c.Objects.byClass[volume.ClassOf(claim)] {
		reserved := volume.IsBoundTo(v, claim)
		if slices.ContainsFunc(chosen.Bindings, func(o Binding) bool { return o.Volume == v }) || v.Spec.ClaimRef != nil && !reserved ||
			volume.Unlike(claim, v) != "" || v.DeletionTimestamp != nil {
			continue
		}
		usable := volume.Admits(v, n.labelled)
		switch {
		case reserved && usable:
			return v
		case reserved:
			return nil
		case !usable || v.Status.Phase != corev1.VolumeAvailable || !selector.Matches(labels.Set(v.Labels)) || volume.Mismatch(claim, v) != "":
			continue
		}
		if best == nil || smaller(v, best) {
			best = v
		}
	}
	return best
}

// smaller reports whether a volume is smaller than another, or has the first name of two of the same size.
func smaller(a, b *corev1.PersistentVolume) bool {
	size := volume.StorageOf(a)
	order := size.Cmp(volume.StorageOf(b))
	return order < 0 || order == 0 && strings.Compare(a.Name, b.Name) < 0
}

// provision adds a claim to the provisions, if a volume can be provisioned for a node.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.checkVolumeProvisions
//upstream:k8s.io/component-helpers/storage/volume.NotSupportedProvisioner
func (b *volumeBinding) provision(c *cycle, claim *corev1.PersistentVolumeClaim, n *Node, v *Volumes) (matched, sufficient bool, err error) {
	name := volume.ClassOf(claim)
	class := c.Objects.classes[name]
	switch {
	case name == "":
		return false, false, fmt.Errorf("no class for claim %q", claimKey(claim.Namespace, claim.Name))
	case class == nil:
		return false, false, fmt.Errorf("failed to find storage class %q", name)
	case class.Provisioner == "" || class.Provisioner == "kubernetes.io/no-provisioner" || !isTopologyAllowed(class, n):
		return false, true, nil
	}
	capacity, sufficient := enoughCapacity(c.Objects, class, claim, n)
	if sufficient {
		v.Provisions, v.capacities = append(v.Provisions, claim), append(v.capacities, capacity)
	}
	return true, sufficient, nil
}

// isTopologyAllowed reports whether a class allows volumes on a node.
//
//upstream:pkg/apis/core/v1/helper.MatchTopologySelectorTerms
func isTopologyAllowed(class *storagev1.StorageClass, n *Node) bool {
	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			value, ok := n.Labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		})
	})
}

// enoughCapacity reports whether a driver that publishes its capacity has enough for a claim on a node, and where.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.volumeBinder.hasEnoughCapacity
func enoughCapacity(o *Objects, class *storagev1.StorageClass, claim *corev1.PersistentVolumeClaim, n *Node) (*storagev1.CSIStorageCapacity, bool) {
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := o.drivers[class.Provisioner]
	if !ok || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, true
	}
	var best *storagev1.CSIStorageCapacity
	for _, capacity := range o.capacities {
		limit := capacity.MaximumVolumeSize
		if limit == nil {
			limit = capacity.Capacity
		}
		if capacity.StorageClassName != class.Name || limit == nil || limit.Value() < size.Value() || capacity.NodeTopology == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology)
		if err == nil && selector.Matches(labels.Set(n.Labels)) && (best == nil || capacity.Name < best.Name) {
			best = capacity
		}
	}
	return best, best != nil
}

//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.PreScore
func (b *volumeBinding) preScore(_ *cycle, _ []*Node) (skip bool) { return len(b.waiting) == 0 }

// score computes how much of the volumes the claims use, by class.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.Score
//upstream:pkg/scheduler/framework/plugins/volumebinding.buildScorerFunction
func (b *volumeBinding) score(_ *cycle, n *Node) int64 {
	v := b.byNode[n]
	if v == nil {
		return 0
	}
	requested, capacity := map[string]int64{}, map[string]int64{}
	for _, o := range v.Bindings {
		class, want, has := volume.ClassOf(o.Claim), o.Claim.Spec.Resources.Requests[corev1.ResourceStorage], volume.StorageOf(o.Volume)
		requested[class] += want.Value()
		capacity[class] += has.Value()
	}
	for i, claim := range v.Provisions {
		if len(v.Bindings) > 0 || v.capacities[i] == nil {
			continue
		}
		class, want := volume.ClassOf(claim), claim.Spec.Resources.Requests[corev1.ResourceStorage]
		requested[class] += want.Value()
		capacity[class] = v.capacities[i].Capacity.Value()
	}
	if len(capacity) == 0 {
		return 0
	}
	sum := int64(0)
	for class, has := range capacity {
		sum += unusedShare(requested[class], has)
	}
	return int64(math.Round(float64(sum) / float64(len(capacity))))
}

// unusedShare returns the score of a class: 100 if nothing of the capacity is used, and 0 if all is.
//
//upstream:pkg/scheduler/framework/plugins/helper.BuildBrokenLinearFunction
//upstream:pkg/scheduler/apis/config/v1.SetDefaults_VolumeBindingArgs
func unusedShare(requested, capacity int64) int64 {
	if capacity == 0 || requested > capacity {
		return 0
	}
	return maxScore - requested*maxScore/capacity
}

func (*volumeBinding) normalize([]int64) {}
