package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// validateNewPod checks a new pod.
//
//upstream:pkg/apis/core/validation.ValidatePodCreate
func validateNewPod(p *corev1.Pod) field.ErrorList {
	errs := ValidatePod(p, nil)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("ephemeralContainers"), "cannot be set on create"))
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("nodeName"),
			"cannot be set until all schedulingGates have been cleared"))
	}
	podspec.SameProfiles(check.Object(&errs).Child("spec"), p)
	return errs
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
	if messages := validation.IsDNS1123Label(p.Name); len(messages) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", messages))
	}
	return append(warnings, podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)...)
}
