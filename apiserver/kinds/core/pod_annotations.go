package core

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// validateNewPod checks the rules for new pods alone.
//
//upstream:pkg/apis/core/validation.ValidatePodCreate
func validateNewPod(p *corev1.Pod) field.ErrorList {
	if len(p.Spec.EphemeralContainers) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(fieldrules.Spec.ChildField("ephemeralContainers"), "cannot be set on create")}
}

// podAnnotations checks the annotations that Kubernetes interprets.
//
//upstream:pkg/apis/core/validation.ValidatePodSpecificAnnotations
//upstream:pkg/apis/core/validation.ValidateAppArmorPodAnnotations
func podAnnotations(p *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	at := fieldrules.Metadata.ChildField("annotations")
	if value, static := p.Annotations[mirrorAnnotation]; static && p.Spec.NodeName == "" {
		errs = append(errs, field.Invalid(at.Key(mirrorAnnotation), value,
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if cost, ok := p.Annotations[corev1.PodDeletionCost]; ok && !deletionCost(cost) {
		errs = append(errs, field.Invalid(at.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer"))
	}
	for _, key := range fieldrules.SortedKeys(p.Annotations) {
		name, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		if !podspec.HasContainer(&p.Spec, name) {
			errs = append(errs, field.Invalid(at.Key(key), name, "container not found"))
		}
		if profile := p.Annotations[key]; !appArmorProfile(profile) {
			errs = append(errs, field.Invalid(at.Key(key), profile, fmt.Sprintf("invalid AppArmor profile name: %q", profile)))
		}
	}
	return errs
}

// deletionCost reports whether text is a 32-bit integer in the format of strconv, which has neither a plus
// sign nor leading zeros.
//
//upstream:pkg/apis/core/helper.GetDeletionCostFromPodAnnotations
//upstream:pkg/apis/core/helper.validFirstDigit
func deletionCost(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == text
}

// applyAppArmor sets the AppArmor profile of each container that has the deprecated annotation and no
// profile in its security context. It warns of the annotation.
//
//upstream:pkg/registry/core/pod.applyAppArmorVersionSkew
func applyAppArmor(ctx context.Context, p *corev1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var ofPod *corev1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		ofPod = p.Spec.SecurityContext.AppArmorProfile
	}
	podspec.VisitContainers(&p.Spec, func(name string, c **corev1.SecurityContext) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + name
		annotation, ok := p.Annotations[key]
		if !ok || *c != nil && (*c).AppArmorProfile != nil {
			return
		}
		profile := podspec.AppArmorOf(annotation)
		if profile != nil {
			if apiequality.Semantic.DeepEqual(profile, ofPod) {
				return
			}
			if *c == nil {
				*c = &corev1.SecurityContext{}
			}
			(*c).AppArmorProfile = profile
		}
		at := fieldrules.Metadata.ChildField("annotations").Key(key)
		warning.AddWarning(ctx, "", at.String()+": "+podspec.DeprecatedAppArmor)
	})
}

// appArmorProfile reports whether the value of the deprecated annotation is valid.
//
//upstream:pkg/apis/core/validation.ValidateAppArmorProfileFormat
func appArmorProfile(profile string) bool {
	switch profile {
	case "", corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return true
	}
	return strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// podWarnings returns the warnings for a new pod. An update has none: controllers update pods often, and
// users seldom do.
//
//upstream:pkg/registry/core/pod.podStrategy.WarningsOnCreate
//upstream:pkg/registry/core/pod.podStrategy.WarningsOnUpdate
func podWarnings(p, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	if messages := validation.IsDNS1123Label(p.Name); len(messages) > 0 && p.Name != "" {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", messages))
	}
	return append(warnings, podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)...)
}
