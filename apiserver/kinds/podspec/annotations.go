package podspec

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// The annotations that fields have replaced.
const (
	tolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerations"
	containerSeccomp      = corev1.SeccompContainerAnnotationKeyPrefix
	containerAppArmor     = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
)

// annotations checks the annotations of a pod or a template that Kubernetes interprets.
//
//upstream:pkg/apis/core/validation.ValidatePodSpecificAnnotations
func (r *rules) annotations(at check.Field, of map[string]string, s *corev1.PodSpec) {
	if len(of) == 0 {
		return
	}
	if value, static := of[corev1.MirrorPodAnnotationKey]; static && s.NodeName == "" {
		at.Key(corev1.MirrorPodAnnotationKey).Invalid(value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := of[tolerationsAnnotation]; text != "" {
		r.annotatedTolerations(at, text)
	}
	if !r.anyDeletionCost && !DeletionCost(of) {
		at.Key(corev1.PodDeletionCost).Invalid(of[corev1.PodDeletionCost], "must be a 32bit integer")
	}
	for _, key := range fieldrules.SortedKeys(of) {
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, containerSeccomp) {
			seccompName(at.Child(key), of[key])
		}
		name, ok := strings.CutPrefix(key, containerAppArmor)
		if !ok {
			continue
		}
		if !hasContainer(s, name) {
			at.Key(key).Invalid(name, "container not found")
		}
		if profile := of[key]; !appArmorName(profile) {
			at.Key(key).Invalidf(profile, "invalid AppArmor profile name: %q", profile)
		}
	}
}

// ValidateAnnotations checks the annotations of an updated pod. Some of them are immutable.
//
//upstream:pkg/apis/core/validation.ValidatePodSpecificAnnotationUpdates
func ValidateAnnotations(at check.Field, p, old *corev1.Pod) {
	if len(p.Annotations)+len(old.Annotations) == 0 {
		return
	}
	for _, key := range fieldrules.SortedKeys(old.Annotations) {
		value, kept := p.Annotations[key]
		changed := !kept || value != old.Annotations[key]
		check.Forbid(at.Key(key), changed && strings.HasPrefix(key, containerAppArmor), "may not remove or update AppArmor annotations")
		check.Forbid(at.Key(key), changed && key == corev1.MirrorPodAnnotationKey, "may not remove or update mirror pod annotation")
	}
	for _, key := range fieldrules.SortedKeys(p.Annotations) {
		_, had := old.Annotations[key]
		check.Forbid(at.Key(key), !had && strings.HasPrefix(key, containerAppArmor), "may not add AppArmor annotations")
		check.Forbid(at.Key(key), !had && key == corev1.MirrorPodAnnotationKey, "may not add mirror pod annotation")
	}
	rulesFor(&p.ObjectMeta, &old.Spec, old.Annotations).annotations(at, p.Annotations, &p.Spec)
}

// annotatedTolerations checks tolerations in an annotation.
//
//upstream:pkg/apis/core/validation.ValidateTolerationsInPodAnnotations
func (r *rules) annotatedTolerations(at check.Field, text string) {
	var list []corev1.Toleration
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		at.Invalid(tolerationsAnnotation, fieldrules.InternalError(err))
		return
	}
	r.tolerations(at.Child(tolerationsAnnotation), list)
}

// DeletionCost reports whether annotations have no deletion cost, or a 32-bit integer in the format of strconv, which has
// neither a plus sign nor leading zeros.
//
//upstream:pkg/apis/core/helper.GetDeletionCostFromPodAnnotations
//upstream:pkg/apis/core/helper.validFirstDigit
func DeletionCost(annotations map[string]string) bool {
	text, ok := annotations[corev1.PodDeletionCost]
	if !ok {
		return true
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == text
}

// seccompName checks the name of a seccomp profile in an annotation.
//
//upstream:pkg/apis/core/validation.ValidateSeccompProfile
func seccompName(at check.Field, profile string) {
	path, local := strings.CutPrefix(profile, corev1.SeccompLocalhostProfileNamePrefix)
	switch {
	case local:
		localPath(at, path)
	case profile != corev1.SeccompProfileRuntimeDefault && profile != corev1.DeprecatedSeccompProfileDockerDefault &&
		profile != corev1.SeccompProfileNameUnconfined:
		at.Invalid(profile, "must be a valid seccomp profile")
	}
}

// appArmorName reports whether the name of an AppArmor profile in an annotation is valid.
//
//upstream:pkg/apis/core/validation.ValidateAppArmorProfileFormat
func appArmorName(profile string) bool {
	switch profile {
	case "", corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return true
	}
	return strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// hasContainer reports whether a pod has a container of any type with this name.
//
//upstream:pkg/apis/core/validation.podSpecHasContainer
func hasContainer(s *corev1.PodSpec, name string) bool {
	for _, c := range each(s) {
		if c.Name == name {
			return true
		}
	}
	return false
}

// SameProfiles checks that the profiles in the annotations of a new pod are the profiles in its spec.
//
//upstream:pkg/apis/core/validation.ValidatePodCreate
func SameProfiles(spec check.Field, p *corev1.Pod) { sameProfiles(spec, p.Annotations, &p.Spec) }

// sameProfiles checks that the seccomp and the AppArmor profiles in the annotations are the profiles in the spec.
//
//upstream:pkg/apis/core/validation.validateSeccompAnnotationsAndFields
//upstream:pkg/apis/core/validation.validateAppArmorAnnotationsAndFieldsMatchOnCreate
func sameProfiles(spec check.Field, of map[string]string, s *corev1.PodSpec) {
	if len(of) == 0 {
		return
	}
	var pod *corev1.AppArmorProfile
	if c := s.SecurityContext; c != nil {
		pod = c.AppArmorProfile
		if annotation, ok := of[corev1.SeccompPodAnnotationKey]; ok && c.SeccompProfile != nil {
			sameSeccomp(spec.Child("securityContext").Child("seccompProfile"), annotation, c.SeccompProfile)
		}
	}
	windows := s.OS != nil && s.OS.Name == corev1.Windows
	for at, c := range each(s) {
		context := at.in(spec).Child("securityContext")
		profile := pod
		if c.SecurityContext != nil {
			if annotation, ok := of[containerSeccomp+c.Name]; ok && c.SecurityContext.SeccompProfile != nil {
				sameSeccomp(context.Child("seccompProfile"), annotation, c.SecurityContext.SeccompProfile)
			}
			if c.SecurityContext.AppArmorProfile != nil {
				profile = c.SecurityContext.AppArmorProfile
			}
		}
		if annotation, ok := of[containerAppArmor+c.Name]; ok && profile != nil && !windows {
			sameAppArmor(context.Child("appArmorProfile"), annotation, profile)
		}
	}
}

//upstream:pkg/apis/core/validation.validateSeccompAnnotationsAndFieldsMatch
func sameSeccomp(at check.Field, annotation string, p *corev1.SeccompProfile) {
	local, isLocal := strings.CutPrefix(annotation, corev1.SeccompLocalhostProfileNamePrefix)
	same := true
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		same = annotation == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		same = annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		same = isLocal
		check.Forbid(at.Child("localhostProfile"), isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local),
			"seccomp profile in annotation and field must match")
	}
	check.Forbid(at.Child("type"), !same, "seccomp type in annotation and field must match")
}

func sameAppArmor(at check.Field, annotation string, p *corev1.AppArmorProfile) {
	local, isLocal := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	same := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		same = isLocal
		check.Forbid(at.Child("localhostProfile"), isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local),
			"apparmor profile in annotation and field must match")
	}
	check.Forbid(at.Child("type"), !same, "apparmor type in annotation and field must match")
}
