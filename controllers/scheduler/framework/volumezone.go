package framework

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/controllers/internal/volume"
)

// volumeZone rejects nodes outside of the zones and regions in the labels of the pod's volumes.
//
//upstream:pkg/scheduler/framework/plugins/volumezone.VolumeZone.Filter
type volumeZone struct{ zones []zoneLabel }

// zoneLabel is a label of a volume, with the values that it lists.
type zoneLabel struct {
	key    string
	values sets.Set[string]
}

// zoneLabels are the labels of zones and regions, with their names since they are stable.
//
//upstream:pkg/scheduler/framework/plugins/volumezone.topologyLabels
//upstream:pkg/scheduler/framework/plugins/volumezone.translateToGALabel
var zoneLabels = []struct{ key, stable string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

var zoneMissing = unresolvable("VolumeZone", "node(s) had no available volume zone")

func (*volumeZone) name() string { return "VolumeZone" }

// notFound returns the status of a pod with an object that does not exist.
func notFound(plugin, kind, name string) *Status {
	return unresolvable(plugin, fmt.Sprintf("%s %q not found", kind, name))
}

//upstream:pkg/scheduler/framework/plugins/volumezone.VolumeZone.PreFilter
//upstream:pkg/scheduler/framework/plugins/volumezone.VolumeZone.getPVbyPod
func (z *volumeZone) preFilter(c *cycle) preFilterResult {
	for i := range c.info.volumes {
		used := c.info.volumes[i].PersistentVolumeClaim
		if used == nil {
			continue
		}
		claim := c.Objects.claims[claimKey(c.pod.Namespace, used.ClaimName)]
		if claim == nil {
			return preFilterResult{status: notFound(z.name(), "persistentvolumeclaim", used.ClaimName)}
		}
		if claim.Spec.VolumeName == "" {
			if status := z.unbound(c, claim); status != nil {
				return preFilterResult{status: status}
			}
			continue
		}
		v := c.Objects.volumes[claim.Spec.VolumeName]
		if v == nil {
			return preFilterResult{status: notFound(z.name(), "persistentvolume", claim.Spec.VolumeName)}
		}
		for _, l := range zoneLabels {
			if value, ok := v.Labels[l.key]; ok {
				z.add(l.key, value)
			}
		}
	}
	return preFilterResult{skip: len(z.zones) == 0}
}

// zoneSeparator separates the zones of a volume in a label.
//
//upstream:k8s.io/cloud-provider/volume.LabelMultiZoneDelimiter
const zoneSeparator = "__"

// add adds a label of a volume. A list with an empty element is ignored.
//
//upstream:pkg/scheduler/framework/plugins/volumezone.VolumeZone.getPVTopologies
//upstream:k8s.io/cloud-provider/volume/helpers.LabelZonesToSet
func (z *volumeZone) add(key, list string) {
	values := sets.New[string]()
	for _, value := range strings.Split(list, zoneSeparator) {
		values.Insert(strings.TrimSpace(value))
	}
	if !values.Has("") {
		z.zones = append(z.zones, zoneLabel{key, values})
	}
}

// unbound returns why a claim without a volume rejects all nodes.
func (z *volumeZone) unbound(c *cycle, claim *corev1.PersistentVolumeClaim) *Status {
	name := volume.ClassOf(claim)
	if name == "" {
		return unresolvable(z.name(), "PersistentVolumeClaim had no pv name and storageClass name")
	}
	class := c.Objects.classes[name]
	switch {
	case class == nil:
		return notFound(z.name(), "storageclass.storage.k8s.io", name)
	case class.VolumeBindingMode == nil:
		return unresolvable(z.name(), fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", name))
	case *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
		return nil
	}
	return unresolvable(z.name(), "PersistentVolume had no name")
}

func (z *volumeZone) filter(_ *cycle, n *Node) *Status {
	zoned := false
	for _, l := range zoneLabels {
		_, ok := n.Labels[l.key]
		zoned = zoned || ok
	}
	if !zoned {
		return nil
	}
	for _, want := range z.zones {
		value, ok := n.Labels[want.key]
		if !ok {
			value, ok = n.Labels[stableLabel(want.key)]
		}
		if !ok || !want.values.Has(value) {
			return zoneMissing
		}
	}
	return nil
}

func stableLabel(key string) string {
	for _, l := range zoneLabels {
		if l.key == key {
			return l.stable
		}
	}
	return key
}
