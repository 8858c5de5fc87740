package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
)

// rules say what a spec may contain: a pod's or a template's, a new one or an updated one. An update may keep what
// has become invalid since the old spec was stored.
//
//upstream:pkg/apis/core/validation.PodValidationOptions
type rules struct {
	pod *metav1.ObjectMeta // nil for a template

	anyPages        bool // huge pages that are no multiple of their size
	anySelector     bool // invalid values of labels in selectors of affinities
	anyNodeLabel    bool // invalid values of labels in required node affinities
	anySpread       bool // invalid selectors of topology spread constraints
	strictSpread    bool // the older check of matchLabelKeys
	anyTokenPath    bool // projected tokens outside their volume
	anySysctl       bool // sysctls of the namespaces of the host
	comparisons     bool // the operators Gt and Lt of tolerations
	restartInit     bool // init containers that restart to be resized
	privateDevices  bool // block devices without the users of the host
	emptyImages     bool // image volumes without an image
	sysAdmin        bool // CAP_SYS_ADMIN without privilege escalation
	anyDeletionCost bool // deletion costs that are no numbers
}

// rulesFor returns the rules for the spec of a pod, or of a template if pod is nil. The old spec is nil on create.
//
//upstream:pkg/api/pod.GetValidationOptionsFromPodSpecAndMeta
func rulesFor(pod *metav1.ObjectMeta, old *corev1.PodSpec, oldAnnotations map[string]string) *rules {
	r := &rules{pod: pod}
	if old == nil {
		return r
	}
	r.anyDeletionCost = !DeletionCost(oldAnnotations)
	r.anySelector = check.Fails(func(at check.Field) { affinitySelectors(at, old.Affinity) })
	if a := old.Affinity; a != nil && a.NodeAffinity != nil {
		r.anyNodeLabel = InvalidNodeLabels(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range old.TopologySpreadConstraints {
		c := &old.TopologySpreadConstraints[i]
		r.anySpread = r.anySpread || check.Fails(func(at check.Field) { check.LabelSelector(at, c.LabelSelector) })
		r.strictSpread = r.strictSpread || check.Fails(func(at check.Field) { spreadKeys(at, c) })
	}
	r.comparisons = slices.ContainsFunc(old.Tolerations, func(t corev1.Toleration) bool {
		return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
	})
	for i := range old.Volumes {
		v := &old.Volumes[i]
		r.emptyImages = r.emptyImages || v.Image != nil && v.Image.Reference == ""
		r.anyTokenPath = r.anyTokenPath || v.Projected != nil && slices.ContainsFunc(v.Projected.Sources,
			func(s corev1.VolumeProjection) bool {
				t := s.ServiceAccountToken
				return t != nil && check.Fails(func(at check.Field) { nonReserved(at, t.Path) })
			})
	}
	if c := old.SecurityContext; c != nil {
		r.anySysctl = slices.ContainsFunc(c.Sysctls, func(s corev1.Sysctl) bool { return hostSysctl(s.Name, old) != "" })
	}
	r.addContainers(old)
	return r
}

// addContainers adds what the containers of the old spec have.
//
//upstream:pkg/api/pod.usesIndivisibleHugePagesValues
//upstream:pkg/api/pod.hasUserNamespacesWithVolumeDevices
//upstream:pkg/api/pod.hasSysAdminAndPrivilegeEscalationFalse
//upstream:pkg/api/pod.hasRestartContainerForNonSidecarInitContainer
func (r *rules) addContainers(old *corev1.PodSpec) {
	r.anyPages = indivisible(old.Overhead)
	private := old.HostUsers != nil && !*old.HostUsers
	for _, c := range each(old) {
		r.anyPages = r.anyPages || indivisible(c.Resources.Limits) || indivisible(c.Resources.Requests)
		r.privateDevices = r.privateDevices || private && len(c.VolumeDevices) > 0
		s := c.SecurityContext
		r.sysAdmin = r.sysAdmin || s != nil && (s.AllowPrivilegeEscalation == nil || !*s.AllowPrivilegeEscalation) &&
			s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN")
	}
	for i := range old.InitContainers {
		c := &old.InitContainers[i]
		r.restartInit = r.restartInit || !Sidecar(c) && slices.ContainsFunc(c.ResizePolicy,
			func(p corev1.ContainerResizePolicy) bool { return p.RestartPolicy == corev1.RestartContainer })
	}
}

// indivisible reports whether a list has huge pages that are no multiple of their size.
func indivisible(list corev1.ResourceList) bool {
	for name, q := range list {
		if !check.WholePages(name, q) {
			return true
		}
	}
	return false
}

// affinitySelectors checks the selectors of pod affinities.
//
//upstream:pkg/api/pod.hasInvalidLabelValueInAffinitySelector
func affinitySelectors(at check.Field, a *corev1.Affinity) {
	terms := func(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm) {
		for i := range must {
			termSelectors(at, &must[i], false)
		}
		for i := range prefer {
			termSelectors(at, &prefer[i].PodAffinityTerm, false)
		}
	}
	if a != nil && a.PodAffinity != nil {
		terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// InvalidNodeLabels reports whether a node selector, which may be nil, has an invalid value of a label.
//
//upstream:pkg/api/pod.hasInvalidLabelValueInRequiredNodeAffinity
//upstream:pkg/apis/core/helper.HasInvalidLabelValueInNodeSelectorTerms
func InvalidNodeLabels(s *corev1.NodeSelector) bool {
	if s == nil {
		return false
	}
	for _, t := range s.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if slices.ContainsFunc(e.Values, func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 }) {
				return true
			}
		}
	}
	return false
}
