package apps

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
	"flyball.dev/apiserver/kinds/workload"
)

// StatefulSets describes the kind StatefulSet.
//
//upstream:pkg/registry/apps/statefulset.statefulSetStrategy
//upstream:pkg/registry/apps/statefulset.statefulSetStatusStrategy
//upstream:pkg/printers/internalversion.printStatefulSet
//upstream:pkg/registry/apps/statefulset/storage.REST.ShortNames
//upstream:pkg/registry/apps/statefulset/storage.REST.Categories
func StatefulSets() kinds.Kind {
	return kinds.Of[*appsv1.StatefulSet]{
		Type: &appsv1.StatefulSet{}, List: &appsv1.StatefulSetList{},
		Plural: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"},
		Name:           fieldrules.NameIsLabel,
		Default:        defaultStatefulSet,
		ValidateCreate: func(s *appsv1.StatefulSet) field.ErrorList { return validateStatefulSet(s, nil) },
		ValidateUpdate: validateStatefulSet,
		Warnings:       statefulSetWarnings,
		Status:         true,
		ValidateStatus: validateStatefulSetStatus,
		Generation:     true,
		Scale: &kinds.ScaleOf[*appsv1.StatefulSet]{
			Replicas:       func(s *appsv1.StatefulSet) int32 { return *s.Spec.Replicas },
			SetReplicas:    func(s *appsv1.StatefulSet, n int32) { s.Spec.Replicas = &n },
			StatusReplicas: func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas },
			Selector:       func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector },
		},
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			columns.Column("Ready", "string", "The number of ready pods, and the desired number."),
		}, workload.WideContainers[:2]),
		Row: func(s *appsv1.StatefulSet) []any {
			names, images := columns.ContainerCells(s.Spec.Template.Spec.Containers)
			return []any{fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, *s.Spec.Replicas), names, images}
		},
	}
}

//upstream:pkg/registry/apps/statefulset.statefulSetStrategy.WarningsOnCreate
//upstream:pkg/registry/apps/statefulset.statefulSetStrategy.WarningsOnUpdate
func statefulSetWarnings(s, old *appsv1.StatefulSet) []string {
	var warnings []string
	if old == nil || s.Generation != old.Generation {
		warnings = workload.TemplateWarnings(&s.Spec.Template)
	}
	for i := range s.Spec.VolumeClaimTemplates {
		at := fieldrules.Spec.ChildField("volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec") // in upper case, and only on update
		}
		warnings = append(warnings, podspec.ClaimWarnings(&s.Spec.VolumeClaimTemplates[i].Spec, at)...)
	}
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		warnings = append(warnings,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return warnings
}

// defaultStatefulSet sets the defaults of a StatefulSet and of its volume claim templates.
//
//upstream:pkg/apis/apps/v1.SetDefaults_StatefulSet
func defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	fieldrules.DefaultPointer(&spec.Replicas, workload.DefaultReplicas)
	fieldrules.DefaultPointer(&spec.RevisionHistoryLimit, workload.DefaultHistory)
	fieldrules.DefaultValue(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil &&
		spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		fieldrules.DefaultPointer(&r.MaxUnavailable, intstr.FromInt32(1))
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil { // it is not optional in kube-apiserver's internal version
		fieldrules.DefaultPointer(&r.Partition, 0)
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	fieldrules.DefaultValue(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fieldrules.DefaultValue(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	podspec.SetDefaults(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		podspec.SetClaimDefaults(c)
	}
}

// validateStatefulSet checks a StatefulSet. The old one is nil on create. If the old one is invalid, the template is not checked.
//
//upstream:pkg/apis/apps/validation.ValidateStatefulSetUpdate
func validateStatefulSet(s, old *appsv1.StatefulSet) (errs field.ErrorList) {
	spec, now := check.Object(&errs).Child("spec"), &s.Spec
	if old == nil {
		statefulSetSpec(spec, now, nil, false)
		return errs
	}
	was := &old.Spec
	invalid := check.Fails(func(spec check.Field) { statefulSetSpec(spec, was, was, false) })
	statefulSetSpec(spec, now, was, invalid)
	check.Immutable(spec.Child("selector"), now.Selector, was.Selector)
	if !equality.Semantic(now.VolumeClaimTemplates, was.VolumeClaimTemplates) {
		claims := slices.Clone(now.VolumeClaimTemplates)
		for i := range claims {
			claims[i].TypeMeta = metav1.TypeMeta{}
		}
		check.ImmutableStruct(spec.Child("volumeClaimTemplates"), claims, was.VolumeClaimTemplates)
	}
	check.Immutable(spec.Child("serviceName"), now.ServiceName, was.ServiceName)
	check.Immutable(spec.Child("podManagementPolicy"), now.PodManagementPolicy, was.PodManagementPolicy)
	return errs
}

// statefulSetSpec checks the spec of a StatefulSet, with skipTemplate without the template of the pods. The old spec is nil
// on create. An update does not check immutable fields again.
//
//upstream:pkg/apis/apps/validation.ValidateStatefulSetSpec
func statefulSetSpec(spec check.Field, s, old *appsv1.StatefulSetSpec, skipTemplate bool) {
	switch at := spec.Child("podManagementPolicy"); s.PodManagementPolicy {
	case "":
		at.Required("")
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		at.Invalid(s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
	}
	if old == nil {
		check.IfSet(spec.Child("serviceName"), s.ServiceName, check.DNSLabel)
	}
	statefulStrategy(spec.Child("updateStrategy"), &s.UpdateStrategy)
	if p, at := s.PersistentVolumeClaimRetentionPolicy, spec.Child("persistentVolumeClaimRetentionPolicy"); p != nil {
		retention(at.Child("whenDeleted"), p.WhenDeleted)
		retention(at.Child("whenScaled"), p.WhenScaled)
	}
	if old == nil {
		claimTemplates(spec.Child("volumeClaimTemplates"), s.VolumeClaimTemplates)
	}
	check.NonNegative(spec.Child("replicas"), s.Replicas)
	check.NonNegative(spec.Child("minReadySeconds"), &s.MinReadySeconds)
	if s.Ordinals != nil {
		check.NonNegative(spec.Child("ordinals").Child("start"), &s.Ordinals.Start)
	}
	if workload.Selects(spec, s.Selector, &s.Template, "statefulset") {
		statefulTemplate(spec.Child("template"), s, old, skipTemplate)
	}
	workload.RestartsAlways(spec.Child("template"), &s.Template, "StatefulSet")
}

//upstream:pkg/apis/apps/validation.ValidatePersistentVolumeClaimRetentionPolicy
func retention(at check.Field, p appsv1.PersistentVolumeClaimRetentionPolicyType) {
	check.Supported(at, p, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
}

//upstream:pkg/apis/apps/validation.validateVolumeClaimTemplates
func claimTemplates(list check.Field, claims []corev1.PersistentVolumeClaim) {
	for i := range claims {
		at := list.Index(i).Child("spec")
		podspec.ValidateClaim(at, &claims[i].Spec, nil)
	}
}

// statefulTemplate checks the template with a volume for each claim, which the controller adds to the pods.
//
//upstream:pkg/apis/apps/validation.ValidatePodTemplateSpecForStatefulSet
//upstream:pkg/apis/apps/validation.volumesToAddForTemplates
func statefulTemplate(at check.Field, spec, old *appsv1.StatefulSetSpec, skip bool) {
	t := spec.Template
	t.Spec.Subdomain, t.Spec.Hostname = "", "" // the controller replaces them
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	if skip {
		podspec.ValidateTemplateMeta(at, &t, was)
		return
	}
	if len(spec.VolumeClaimTemplates) > 0 {
		t.Spec.Volumes = withClaims(t.Spec.Volumes, spec.VolumeClaimTemplates)
	}
	podspec.ValidateTemplate(at, &t, was)
}

// withClaims returns volumes with a volume for each claim. A claim replaces a volume of its name.
func withClaims(volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) []corev1.Volume {
	var all []corev1.Volume
	var names fieldrules.Seen[string]
	for _, c := range claims {
		if names.Add(c.Name) {
			all = append(all, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
		}
	}
	for _, v := range volumes {
		if !names.Has(v.Name) {
			all = append(all, v)
		}
	}
	return all
}

//upstream:pkg/apis/apps/validation.validateRollingUpdateStatefulSet
func statefulStrategy(at check.Field, s *appsv1.StatefulSetUpdateStrategy) {
	r, rolling := s.RollingUpdate, at.Child("rollingUpdate")
	switch s.Type {
	case "":
		at.Required("")
	case appsv1.OnDeleteStatefulSetStrategyType:
		if r != nil {
			rolling.Invalid(fieldrules.Internal(r), "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r != nil {
			check.NonNegative(rolling.Child("partition"), r.Partition)
			check.Optional(rolling.Child("maxUnavailable"), r.MaxUnavailable, maxUnavailable)
		}
	default:
		at.Invalid(fieldrules.Internal(*s), "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func maxUnavailable(at check.Field, v intstr.IntOrString) {
	check.IntOrPercent(at, &v)
	if fieldrules.IsZero(&v) {
		at.Invalid(v, "cannot be 0")
	}
	check.AtMost100Percent(at, &v)
}

//upstream:pkg/apis/apps/validation.ValidateStatefulSetStatus
//upstream:pkg/apis/apps/validation.ValidateStatefulSetStatusUpdate
func validateStatefulSetStatus(set, old *appsv1.StatefulSet) (errs field.ErrorList) {
	status, s := check.Object(&errs).Child("status"), &set.Status
	workload.Counts(status, map[string]int32{"replicas": s.Replicas, "readyReplicas": s.ReadyReplicas,
		"currentReplicas": s.CurrentReplicas, "updatedReplicas": s.UpdatedReplicas, "availableReplicas": s.AvailableReplicas})
	check.NonNegative(status.Child("observedGeneration"), &s.ObservedGeneration)
	workload.NotMoreThan(status.Child("readyReplicas"), s.ReadyReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("currentReplicas"), s.CurrentReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("updatedReplicas"), s.UpdatedReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.Replicas, "status.replicas")
	workload.NotMoreThan(status.Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")
	workload.NotBackwards(status.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
	return errs
}
