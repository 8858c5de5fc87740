package podspec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
func (r *rules) annotations(of map[string]string, s *corev1.PodSpec, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if value, static := of[corev1.MirrorPodAnnotationKey]; static && s.NodeName == "" {
		errs = append(errs, field.Invalid(at.Field().Key(corev1.MirrorPodAnnotationKey), value,
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if text := of[tolerationsAnnotation]; text != "" {
		errs = append(errs, r.annotatedTolerations(text, at)...)
	}
	if !r.anyDeletionCost && !DeletionCost(of) {
		errs = append(errs, field.Invalid(at.Field().Key(corev1.PodDeletionCost), of[corev1.PodDeletionCost],
			"must be a 32bit integer"))
	}
	for _, key := range fieldrules.SortedKeys(of) {
		if key == corev1.SeccompPodAnnotationKey || strings.HasPrefix(key, containerSeccomp) {
			errs = append(errs, seccompName(of[key], at, key)...)
		}
		name, ok := strings.CutPrefix(key, containerAppArmor)
		if !ok {
			continue
		}
		if !hasContainer(s, name) {
			errs = append(errs, field.Invalid(at.Field().Key(key), name, "container not found"))
		}
		if profile := of[key]; !appArmorName(profile) {
			errs = append(errs, field.Invalid(at.Field().Key(key), profile, fmt.Sprintf("invalid AppArmor profile name: %q", profile)))
		}
	}
	return errs
}

// ValidateAnnotations checks the annotations of an updated pod. Some of them are immutable.
//
//upstream:pkg/apis/core/validation.ValidatePodSpecificAnnotationUpdates
func ValidateAnnotations(p, old *corev1.Pod) field.ErrorList {
	if len(p.Annotations)+len(old.Annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := fieldrules.Metadata.Child("annotations")
	for _, key := range fieldrules.SortedKeys(old.Annotations) {
		if value, ok := p.Annotations[key]; ok && value == old.Annotations[key] {
			continue
		}
		if strings.HasPrefix(key, containerAppArmor) {
			errs = append(errs, field.Forbidden(at.Field().Key(key), "may not remove or update AppArmor annotations"))
		} else if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(at.Field().Key(key), "may not remove or update mirror pod annotation"))
		}
	}
	for _, key := range fieldrules.SortedKeys(p.Annotations) {
		if _, ok := old.Annotations[key]; ok {
			continue
		}
		if strings.HasPrefix(key, containerAppArmor) {
			errs = append(errs, field.Forbidden(at.Field().Key(key), "may not add AppArmor annotations"))
		} else if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(at.Field().Key(key), "may not add mirror pod annotation"))
		}
	}
	r := rulesFor(&p.ObjectMeta, &old.Spec, old.Annotations)
	return append(errs, r.annotations(p.Annotations, &p.Spec, &at)...)
}

// annotatedTolerations checks tolerations in an annotation.
//
//upstream:pkg/apis/core/validation.ValidateTolerationsInPodAnnotations
func (r *rules) annotatedTolerations(text string, at *fieldrules.Path) field.ErrorList {
	var list []corev1.Toleration
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return field.ErrorList{field.Invalid(at.Field(), tolerationsAnnotation, fieldrules.InternalError(err))}
	}
	all := at.Child(tolerationsAnnotation)
	return r.tolerations(list, &all)
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
func seccompName(profile string, at *fieldrules.Path, key string) field.ErrorList {
	switch profile {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	if p, ok := strings.CutPrefix(profile, corev1.SeccompLocalhostProfileNamePrefix); ok {
		return localPath(p, at, key)
	}
	return field.ErrorList{field.Invalid(at.ChildField(key), profile, "must be a valid seccomp profile")}
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
	found := false
	each(s, &fieldrules.Root, func(c *corev1.Container, _ *fieldrules.Path) { found = found || c.Name == name })
	return found
}

// SameProfiles checks that the profiles in the annotations of a new pod are the profiles in its spec.
//
//upstream:pkg/apis/core/validation.ValidatePodCreate
func SameProfiles(p *corev1.Pod) field.ErrorList {
	if len(p.Annotations) == 0 {
		return nil
	}
	return sameProfiles(p.Annotations, &p.Spec, &fieldrules.Spec)
}

// sameProfiles checks that the seccomp and the AppArmor profiles in the annotations are the profiles in the spec.
//
//upstream:pkg/apis/core/validation.validateSeccompAnnotationsAndFields
//upstream:pkg/apis/core/validation.validateAppArmorAnnotationsAndFieldsMatchOnCreate
func sameProfiles(of map[string]string, s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	var pod *corev1.AppArmorProfile
	if c := s.SecurityContext; c != nil {
		pod = c.AppArmorProfile
		if annotation, ok := of[corev1.SeccompPodAnnotationKey]; ok && c.SeccompProfile != nil {
			at := fldPath.Child("securityContext")
			errs = append(errs, sameSeccomp(annotation, c.SeccompProfile, &at)...)
		}
	}
	windows := s.OS != nil && s.OS.Name == corev1.Windows
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		context := at.Child("securityContext")
		profile := pod
		if c.SecurityContext != nil {
			if annotation, ok := of[containerSeccomp+c.Name]; ok && c.SecurityContext.SeccompProfile != nil {
				errs = append(errs, sameSeccomp(annotation, c.SecurityContext.SeccompProfile, &context)...)
			}
			if c.SecurityContext.AppArmorProfile != nil {
				profile = c.SecurityContext.AppArmorProfile
			}
		}
		if annotation, ok := of[containerAppArmor+c.Name]; ok && profile != nil && !windows {
			errs = append(errs, sameAppArmor(annotation, profile, &context)...)
		}
	})
	return errs
}

//upstream:pkg/apis/core/validation.validateSeccompAnnotationsAndFieldsMatch
func sameSeccomp(annotation string, p *corev1.SeccompProfile, context *fieldrules.Path) field.ErrorList {
	local, isLocal := strings.CutPrefix(annotation, corev1.SeccompLocalhostProfileNamePrefix)
	same := true
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		same = annotation == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		same = annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		if isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(context.ChildField("seccompProfile").Child("localhostProfile"),
				"seccomp profile in annotation and field must match")}
		}
		same = isLocal
	}
	if same {
		return nil
	}
	return field.ErrorList{field.Forbidden(context.ChildField("seccompProfile").Child("type"),
		"seccomp type in annotation and field must match")}
}

func sameAppArmor(annotation string, p *corev1.AppArmorProfile, context *fieldrules.Path) field.ErrorList {
	local, isLocal := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	same := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		if isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(context.ChildField("appArmorProfile").Child("localhostProfile"),
				"apparmor profile in annotation and field must match")}
		}
		same = isLocal
	}
	if same {
		return nil
	}
	return field.ErrorList{field.Forbidden(context.ChildField("appArmorProfile").Child("type"),
		"apparmor type in annotation and field must match")}
}
