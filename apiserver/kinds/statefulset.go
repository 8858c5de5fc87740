package kinds

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func statefulSets() Kind {
	return Of[*appsv1.StatefulSet]{
		Type: &appsv1.StatefulSet{}, List: &appsv1.StatefulSetList{},
		Plural: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"},
		Name:           label,
		Default:        defaultStatefulSet,
		Validate:       validateStatefulSet,
		ValidateUpdate: validateStatefulSetUpdate,
		Warnings:       func(s, _ *appsv1.StatefulSet) []string { return templateWarnings(&s.Spec.Template) },
		Status:         true,
		ValidateStatus: validateStatefulSetStatus,
		Generation:     true,
		Scale: &ScaleOf[*appsv1.StatefulSet]{
			Replicas:       func(s *appsv1.StatefulSet) int32 { return *s.Spec.Replicas },
			SetReplicas:    func(s *appsv1.StatefulSet, n int32) { s.Spec.Replicas = &n },
			StatusReplicas: func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas },
			Selector:       func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector },
		},
		Columns: slices.Concat([]metav1.TableColumnDefinition{
			column("Ready", "string", "The pods that are ready, of all that are wanted."),
		}, wideContainers[:2]),
		Row: func(s *appsv1.StatefulSet) []any {
			names, images := containerCells(s.Spec.Template.Spec.Containers)
			return []any{fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, *s.Spec.Replicas), names, images}
		},
	}
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	orElse(&spec.Replicas, defaultReplicas)
	orElse(&spec.RevisionHistoryLimit, defaultHistory)
	orSet(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		orElse(&r.Partition, 0)
		orElse(&r.MaxUnavailable, intstr.FromInt32(1))
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	orSet(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	orSet(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaultPodSpec(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		defaultClaim(c)
	}
}

func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	errs = append(errs, oneOf(spec.PodManagementPolicy, &specAt, "podManagementPolicy", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)...)
	errs = append(errs, statefulStrategy(&spec.UpdateStrategy)...)
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		at := specAt.at("persistentVolumeClaimRetentionPolicy")
		const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, oneOf(p.WhenDeleted, &at, "whenDeleted", retain, remove)...)
		errs = append(errs, oneOf(p.WhenScaled, &at, "whenScaled", retain, remove)...)
	}
	errs = append(errs, nonNegativeIf(spec.Replicas, &specAt, "replicas")...)
	errs = append(errs, nonNegative(spec.MinReadySeconds, &specAt, "minReadySeconds")...)
	errs = append(errs, nonNegativeIf(spec.RevisionHistoryLimit, &specAt, "revisionHistoryLimit")...)
	if spec.Ordinals != nil {
		at := specAt.at("ordinals")
		errs = append(errs, nonNegative(spec.Ordinals.Start, &at, "start")...)
	}
	errs = append(errs, selects(spec.Selector, &spec.Template, "statefulset")...)
	return append(errs, statefulTemplate(spec)...)
}

// statefulTemplate checks the template as if the claims' volumes were in it already.
func statefulTemplate(spec *appsv1.StatefulSetSpec) field.ErrorList {
	if len(spec.VolumeClaimTemplates) == 0 {
		return restartsAlways(&spec.Template, "ReplicaSet")
	}
	t := spec.Template
	t.Spec.Volumes = slices.Clone(t.Spec.Volumes)
	for _, c := range spec.VolumeClaimTemplates {
		t.Spec.Volumes = slices.DeleteFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == c.Name })
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
	}
	return restartsAlways(&t, "ReplicaSet")
}

func statefulStrategy(s *appsv1.StatefulSetUpdateStrategy) field.ErrorList {
	at := specAt.at("updateStrategy")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(at.path(), "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(at.of("rollingUpdate"), s.RollingUpdate, "only allowed for updateStrategy 'RollingUpdate'")}
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		rolling := at.at("rollingUpdate")
		errs := nonNegativeIf(s.RollingUpdate.Partition, &rolling, "partition")
		if m := s.RollingUpdate.MaxUnavailable; m != nil {
			errs = append(errs, count(m, &rolling, "maxUnavailable")...)
			if isZero(m) {
				errs = append(errs, field.Invalid(rolling.of("maxUnavailable"), *m, "cannot be 0"))
			}
			errs = append(errs, atMostAll(m, &rolling, "maxUnavailable")...)
		}
		return errs
	default:
		return field.ErrorList{field.Invalid(at.path(), *s, "must be 'RollingUpdate' or 'OnDelete'")}
	}
	return nil
}

func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	now := s.Spec
	now.Replicas, now.Template, now.UpdateStrategy = old.Spec.Replicas, old.Spec.Template, old.Spec.UpdateStrategy
	now.MinReadySeconds, now.Ordinals, now.RevisionHistoryLimit = old.Spec.MinReadySeconds, old.Spec.Ordinals, old.Spec.RevisionHistoryLimit
	now.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if apiequality.Semantic.DeepEqual(now, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(specAt.path(), "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	st := &s.Status
	errs := counts(map[string]int32{"replicas": st.Replicas, "readyReplicas": st.ReadyReplicas, "currentReplicas": st.CurrentReplicas,
		"updatedReplicas": st.UpdatedReplicas, "availableReplicas": st.AvailableReplicas})
	errs = append(errs, nonNegative(st.ObservedGeneration, &statusAt, "observedGeneration")...)
	errs = append(errs, notMoreThan(st.ReadyReplicas, "readyReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(st.CurrentReplicas, "currentReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(st.UpdatedReplicas, "updatedReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(st.AvailableReplicas, "availableReplicas", st.Replicas, "status.replicas")...)
	errs = append(errs, notMoreThan(st.AvailableReplicas, "availableReplicas", st.ReadyReplicas, "status.readyReplicas")...)
	return append(errs, notBackwards(st.CollisionCount, old.Status.CollisionCount, "collisionCount")...)
}
