package scheduling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/test/mirror/random"
)

// newPod returns a pod without a node.
func (w *world) newPod(s *random.Source, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: random.Pick(s, "ns", "ns", "ns", "other"), Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	if s.Chance(85) {
		p.Labels["app"] = random.Pick(s, "a", "a", "b")
	}
	if s.Chance(30) {
		p.Labels["tier"] = "t"
	}
	if s.Chance(40) {
		p.OwnerReferences = []metav1.OwnerReference{random.Pick(s,
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)},
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "ss", Controller: ptr.To(true)},
			metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)})}
	}
	p.Spec.Priority = random.Pick[*int32](s, nil, ptr.To[int32](0), ptr.To[int32](5), ptr.To[int32](10), ptr.To[int32](100))
	for i := range 1 + s.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, newContainer(s, fmt.Sprint("c", i)))
	}
	if s.Chance(20) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, newContainer(s, "i"))
		if s.Chance(50) {
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
	}
	if s.Chance(10) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{random.Pick[corev1.ResourceName](s, "cpu", "memory"): quantity(s, "1", "500M")}}
	}
	if s.Chance(10) {
		p.Spec.Overhead = corev1.ResourceList{"cpu": quantity(s, "100m")}
	}
	if s.Chance(10) {
		p.Spec.NodeSelector = map[string]string{"rack": random.Pick(s, "r1", "r2")}
	}
	for _, key := range []string{"k", "l", corev1.TaintNodeUnschedulable} {
		if s.Chance(30) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: random.Pick(s, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)})
		}
	}
	w.addAffinity(s, p)
	for range s.IntN(3) {
		if s.Chance(40) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, newConstraint(s))
		}
	}
	w.addVolumes(s, p)
	return p
}

func newContainer(s *random.Source, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: random.Pick(s, "small:1", "large:1", "huge:2", "other", "registry:5000/small"), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	if s.Chance(50) {
		c.Resources.Requests["cpu"] = quantity(s, "0", "100m", "500m", "1", "2")
	}
	if s.Chance(50) {
		c.Resources.Requests["memory"] = quantity(s, "0", "100Mi", "500Mi", "1Gi")
	}
	if s.Chance(10) {
		c.Resources.Requests["example.com/gpu"] = quantity(s, "1", "2")
	}
	if s.Chance(10) {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: random.Pick[int32](s, 80, 81), HostIP: random.Pick(s, "", "10.0.0.1"), Protocol: random.Pick(s, "", corev1.ProtocolTCP, corev1.ProtocolUDP)}}
	}
	return c
}

var topologyKeys = []string{corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone, "rack"}

func newConstraint(s *random.Source) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{MaxSkew: int32(1 + s.IntN(3)), TopologyKey: random.Pick(s, topologyKeys...),
		WhenUnsatisfiable: random.Pick(s, corev1.DoNotSchedule, corev1.ScheduleAnyway), LabelSelector: newSelector(s)}
	if s.Chance(5) {
		c.LabelSelector = nil
	}
	if s.Chance(20) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
		c.MinDomains = ptr.To(int32(1 + s.IntN(4)))
	}
	c.NodeAffinityPolicy = random.Pick(s, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore))
	c.NodeTaintsPolicy = random.Pick(s, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore))
	if s.Chance(20) {
		c.MatchLabelKeys = random.Pick(s, []string{"tier"}, []string{"app", "tier"})
	}
	return c
}

func (w *world) addAffinity(s *random.Source, p *corev1.Pod) {
	a := &corev1.Affinity{}
	if s.Chance(20) {
		a.NodeAffinity = &corev1.NodeAffinity{}
		if s.Chance(40) && !w.roomy {
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{w.newNodeTerm(s)}}
		}
		for range s.IntN(3) {
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: int32(1 + s.IntN(10)), Preference: w.newNodeTerm(s)})
		}
	}
	terms := func(percent int) (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for range 2 {
			if s.Chance(percent) && (!w.roomy || s.Chance(20)) {
				required = append(required, newTerm(s))
			}
			if s.Chance(25) {
				preferred = append(preferred, corev1.WeightedPodAffinityTerm{Weight: int32(1 + s.IntN(100)), PodAffinityTerm: newTerm(s)})
			}
		}
		return required, preferred
	}
	if s.Chance(20) {
		a.PodAffinity = &corev1.PodAffinity{}
		a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms(30)
	}
	if s.Chance(20) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms(20)
	}
	p.Spec.Affinity = a
}

func (w *world) newNodeTerm(s *random.Source) corev1.NodeSelectorTerm {
	if s.Chance(30) {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: random.Pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values: []string{random.Pick(s, "n0", "n1", "n9")}}}}
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: random.Pick(s, "rack", corev1.LabelTopologyZone), Operator: random.Pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
		Values: []string{random.Pick(s, "r1", "z1"), random.Pick(s, "r2", "z2")}}}}
}

func newTerm(s *random.Source) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: random.Pick(s, topologyKeys...), LabelSelector: newSelector(s)}
	switch s.IntN(8) {
	case 0:
		t.Namespaces = []string{"other"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": random.Pick(s, "x", "y")}}
	case 3:
		t.LabelSelector = nil
	}
	return t
}

func (w *world) addVolumes(s *random.Source, p *corev1.Pod) {
	add := func(name string, source corev1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	if s.Chance(6) {
		add("disk", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: random.Pick(s, "d1", "d2")}})
	}
	if s.Chance(4) {
		add("shared", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "q", ReadOnly: s.Chance(50)}})
	}
	if s.Chance(3) {
		add("image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: random.Pick(s, "small:1", "huge:2")}})
	}
	if p.Namespace != "ns" || !s.Chance(25) {
		return
	}
	for i := range 1 + s.IntN(2) {
		add(fmt.Sprint("claim", i), corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", s.IntN(6))}})
	}
	if s.Chance(10) {
		add("ephemeral", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	}
}
