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
		ValidateCreate: func(s *appsv1.StatefulSet) field.ErrorList { return statefulSetSpec(&s.Spec, nil, false) },
		ValidateUpdate: validateStatefulSetUpdate,
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

// statefulSetSpec checks the spec of a StatefulSet, with skipTemplate without the template of the pods. The old spec is nil
// on create. An update does not check immutable fields again.
//
//upstream:pkg/apis/apps/validation.ValidateStatefulSetSpec
//upstream:pkg/apis/apps/validation.ValidatePersistentVolumeClaimRetentionPolicy
//upstream:pkg/apis/apps/validation.validateVolumeClaimTemplates
func statefulSetSpec(spec, old *appsv1.StatefulSetSpec, skipTemplate bool) field.ErrorList {
	var errs field.ErrorList
	switch p := spec.PodManagementPolicy; p {
	case "":
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("podManagementPolicy"), ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("podManagementPolicy"), p,
			"must be 'OrderedReady' or 'Parallel'"))
	}
	if spec.ServiceName != "" && old == nil {
		errs = append(errs, fieldrules.DNSLabel(spec.ServiceName, &fieldrules.Spec, "serviceName")...)
	}
	errs = append(errs, statefulStrategy(&spec.UpdateStrategy)...)
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		at := fieldrules.Spec.Child("persistentVolumeClaimRetentionPolicy")
		const (
			retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
			remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		)
		for _, when := range [...]struct {
			name   string
			policy appsv1.PersistentVolumeClaimRetentionPolicyType
		}{{"whenDeleted", p.WhenDeleted}, {"whenScaled", p.WhenScaled}} {
			if when.policy != retain && when.policy != remove {
				errs = append(errs, field.NotSupported(at.ChildField(when.name), when.policy,
					[]appsv1.PersistentVolumeClaimRetentionPolicyType{retain, remove}))
			}
		}
	}
	if old == nil {
		errs = append(errs, claimTemplates(spec.VolumeClaimTemplates)...)
	}
	errs = append(errs, fieldrules.OptionalNonNegative(spec.Replicas, &fieldrules.Spec, "replicas")...)
	errs = append(errs, fieldrules.NonNegative(spec.MinReadySeconds, &fieldrules.Spec, "minReadySeconds")...)
	if spec.Ordinals != nil {
		at := fieldrules.Spec.Child("ordinals")
		errs = append(errs, fieldrules.NonNegative(spec.Ordinals.Start, &at, "start")...)
	}
	selects, ok := workload.Selects(spec.Selector, &spec.Template, "statefulset")
	errs = append(errs, selects...)
	if ok {
		errs = append(errs, statefulTemplate(spec, old, skipTemplate)...)
	}
	return append(errs, workload.RestartsAlways(&spec.Template, "StatefulSet")...)
}

func claimTemplates(claims []corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("volumeClaimTemplates")
	for i := range claims {
		item := list.Index(i)
		podspec.ValidateClaim(check.Field{Path: item.Child("spec")}.Into(&errs), &claims[i].Spec, nil)
	}
	return errs
}

// statefulTemplate checks the template with a volume for each claim, which the controller adds to the pods.
//
//upstream:pkg/apis/apps/validation.ValidatePodTemplateSpecForStatefulSet
//upstream:pkg/apis/apps/validation.volumesToAddForTemplates
func statefulTemplate(spec, old *appsv1.StatefulSetSpec, skip bool) (errs field.ErrorList) {
	t := spec.Template
	t.Spec.Subdomain, t.Spec.Hostname = "", "" // the controller replaces them
	at := check.Object(&errs).Child("spec").Child("template")
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	if skip {
		podspec.ValidateTemplateMeta(at, &t, was)
		return errs
	}
	if len(spec.VolumeClaimTemplates) > 0 {
		t.Spec.Volumes = withClaims(t.Spec.Volumes, spec.VolumeClaimTemplates)
	}
	podspec.ValidateTemplate(at, &t, was)
	return errs
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
func statefulStrategy(s *appsv1.StatefulSetUpdateStrategy) field.ErrorList {
	at := fieldrules.Spec.Child("updateStrategy")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(at.Field(), "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(at.ChildField("rollingUpdate"), fieldrules.Internal(s.RollingUpdate),
				"only allowed for updateStrategy 'RollingUpdate'")}
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		rolling := at.Child("rollingUpdate")
		errs := fieldrules.OptionalNonNegative(s.RollingUpdate.Partition, &rolling, "partition")
		if m := s.RollingUpdate.MaxUnavailable; m != nil {
			errs = append(errs, fieldrules.IntOrPercent(m, &rolling, "maxUnavailable")...)
			if fieldrules.IsZero(m) {
				errs = append(errs, field.Invalid(rolling.ChildField("maxUnavailable"), *m, "cannot be 0"))
			}
			errs = append(errs, fieldrules.AtMost100Percent(m, &rolling, "maxUnavailable")...)
		}
		return errs
	default:
		return field.ErrorList{field.Invalid(at.Field(), fieldrules.Internal(*s), "must be 'RollingUpdate' or 'OnDelete'")}
	}
	return nil
}

// validateStatefulSetUpdate does not check the template if the old spec is invalid.
//
//upstream:pkg/apis/apps/validation.ValidateStatefulSetUpdate
func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	now, was := &s.Spec, &old.Spec
	errs := statefulSetSpec(now, was, len(statefulSetSpec(was, was, false)) > 0)
	errs = append(errs, workload.SameSelector(now.Selector, was.Selector)...)
	if !equality.Semantic(now.VolumeClaimTemplates, was.VolumeClaimTemplates) {
		claims := slices.Clone(now.VolumeClaimTemplates)
		for i := range claims {
			claims[i].TypeMeta = metav1.TypeMeta{}
		}
		errs = append(errs, fieldrules.ImmutableStruct(claims, was.VolumeClaimTemplates, &fieldrules.Spec, "volumeClaimTemplates")...)
	}
	errs = append(errs, fieldrules.Immutable(now.ServiceName, was.ServiceName, &fieldrules.Spec, "serviceName")...)
	return append(errs, fieldrules.Immutable(now.PodManagementPolicy, was.PodManagementPolicy, &fieldrules.Spec,
		"podManagementPolicy")...)
}

//upstream:pkg/apis/apps/validation.ValidateStatefulSetStatus
//upstream:pkg/apis/apps/validation.ValidateStatefulSetStatusUpdate
func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	st := &s.Status
	errs := workload.Counts(map[string]int32{"replicas": st.Replicas, "readyReplicas": st.ReadyReplicas,
		"currentReplicas": st.CurrentReplicas,
		"updatedReplicas": st.UpdatedReplicas, "availableReplicas": st.AvailableReplicas})
	errs = append(errs, fieldrules.NonNegative(st.ObservedGeneration, &fieldrules.Status, "observedGeneration")...)
	errs = append(errs, workload.NotMoreThan(st.ReadyReplicas, "readyReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(st.CurrentReplicas, "currentReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(st.UpdatedReplicas, "updatedReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(st.AvailableReplicas, "availableReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, workload.NotMoreThan(st.AvailableReplicas, "availableReplicas", st.ReadyReplicas,
		"status.readyReplicas")...)
	return append(errs, workload.NotBackwards(st.CollisionCount, old.Status.CollisionCount, "collisionCount")...)
}
