package kinds

import (
	"fmt"
	"reflect"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// featureFields are the fields of features that are off by default. A write does not store them.
//
//upstream:pkg/features/kube_features.go
var featureFields = map[reflect.Type][]string{
	reflect.TypeFor[batchv1.JobSpec]():                          {"Scheduling"},
	reflect.TypeFor[corev1.NodeSpec]():                          {"PodPreemptionPolicy"},
	reflect.TypeFor[corev1.PodSpec]():                           {"SchedulingGroup", "EvictionResponders"},
	reflect.TypeFor[corev1.PodStatus]():                         {"NodeAllocatableResourceClaimStatuses", "VolumeHealth"},
	reflect.TypeFor[corev1.VolumeMountStatus]():                 {"VolumeStatus"},
	reflect.TypeFor[corev1.VolumeMount]():                       {"BindMountOptions"},
	reflect.TypeFor[corev1.GRPCAction]():                        {"Mode"},
	reflect.TypeFor[corev1.HTTPGetAction]():                     {"Protocol"},
	reflect.TypeFor[corev1.Lifecycle]():                         {"StopSignal"},
	reflect.TypeFor[corev1.EmptyDirVolumeSource]():              {"Mode"},
	reflect.TypeFor[corev1.SecretVolumeSource]():                {"DefaultUser"},
	reflect.TypeFor[corev1.ConfigMapVolumeSource]():             {"DefaultUser"},
	reflect.TypeFor[corev1.DownwardAPIVolumeSource]():           {"DefaultUser"},
	reflect.TypeFor[corev1.ProjectedVolumeSource]():             {"DefaultUser"},
	reflect.TypeFor[corev1.KeyToPath]():                         {"User"},
	reflect.TypeFor[corev1.DownwardAPIVolumeFile]():             {"User"},
	reflect.TypeFor[corev1.ServiceAccountTokenProjection]():     {"User"},
	reflect.TypeFor[corev1.ClusterTrustBundleProjection]():      {"User"},
	reflect.TypeFor[corev1.PodCertificateProjection]():          {"User"},
	reflect.TypeFor[resourcev1.ExactDeviceRequest]():            {"DerivedAttributes"},
	reflect.TypeFor[resourcev1.DeviceSubRequest]():              {"DerivedAttributes"},
	reflect.TypeFor[resourcev1.DeviceRequestAllocationResult](): {"SkipNodeOperations"},
	reflect.TypeFor[resourcev1.ResourceSliceSpec]():             {"SkipNodeOperations", "PartitionTypeAttribute"},
	reflect.TypeFor[resourcev1.Device]():                        {"NodeAllocatableResources"},
	reflect.TypeFor[resourcev1.DeviceCounterConsumption]():      {"CompatibilityGroups"},
	reflect.TypeFor[resourcev1.DeviceAttribute]():               {"BoolValues", "IntValues", "StringValues", "VersionValues"},
}

// dropper empties the fields of features that are off in a value, which is addressable.
type dropper func(v reflect.Value)

// droppers has the dropper of each type that was asked for, nil for a type without such fields.
var droppers = struct {
	sync.Mutex
	of map[reflect.Type]dropper
}{of: map[reflect.Type]dropper{}}

// dropperOf returns the dropper of a type, nil if it has no such fields.
func dropperOf(t reflect.Type) dropper {
	droppers.Lock()
	defer droppers.Unlock()
	return partDropper(t)
}

// partDropper is dropperOf where the lock is held. In a type that contains itself, the inner values keep the fields.
func partDropper(t reflect.Type) dropper {
	drop, ok := droppers.of[t]
	if !ok {
		droppers.of[t] = nil
		drop = newDropper(t)
		droppers.of[t] = drop
	}
	return drop
}

func newDropper(t reflect.Type) dropper {
	switch t.Kind() {
	case reflect.Pointer:
		return pointerDropper(t)
	case reflect.Slice:
		item := partDropper(t.Elem())
		if item == nil {
			return nil
		}
		return func(v reflect.Value) {
			for i := range v.Len() {
				item(v.Index(i))
			}
		}
	case reflect.Map:
		return mapDropper(t)
	case reflect.Struct:
		return structDropper(t)
	}
	return nil
}

// pointerDropper also removes a Lifecycle that has nothing else.
func pointerDropper(t reflect.Type) dropper {
	to := partDropper(t.Elem())
	if to == nil {
		return nil
	}
	prune := t == reflect.TypeFor[*corev1.Lifecycle]()
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		empty := v.Elem().IsZero()
		to(v.Elem())
		if prune && !empty && v.Elem().IsZero() {
			v.SetZero()
		}
	}
}

func mapDropper(t reflect.Type) dropper {
	item := partDropper(t.Elem())
	if item == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, key := range v.MapKeys() {
			changed := reflect.New(t.Elem()).Elem()
			changed.Set(v.MapIndex(key))
			item(changed)
			v.SetMapIndex(key, changed)
		}
	}
}

// structDropper empties the fields of a type in featureFields, and in the types of its fields.
func structDropper(t reflect.Type) dropper {
	type part struct {
		index int
		drop  dropper
	}
	var parts []part
	for _, name := range featureFields[t] {
		f, ok := t.FieldByName(name)
		if !ok {
			panic(fmt.Sprintf("%s has no field %s", t, name))
		}
		parts = append(parts, part{f.Index[0], reflect.Value.SetZero})
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			if drop := partDropper(f.Type); drop != nil {
				parts = append(parts, part{i, drop})
			}
		}
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, p := range parts {
			p.drop(v.Field(p.index))
		}
	}
}
