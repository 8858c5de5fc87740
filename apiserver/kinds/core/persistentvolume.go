package core

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// PersistentVolumes describes the kind PersistentVolume.
func PersistentVolumes() kinds.Kind {
	return kinds.Of[*corev1.PersistentVolume]{
		Type: &corev1.PersistentVolume{}, List: &corev1.PersistentVolumeList{},
		Plural: "persistentvolumes", ShortNames: []string{"pv"}, Cluster: true,
		Name:    fieldrules.NameIsSubdomain,
		Default: defaultPersistentVolume,
		Prepare: func(_ context.Context, v, _ *corev1.PersistentVolume) {
			fieldrules.DefaultValue(&v.Status.Phase, corev1.VolumePending)
		},
		Validate:       validatePersistentVolume,
		ValidateUpdate: validatePersistentVolumeUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Capacity", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["capacity"]),
			columns.Column("Access Modes", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["accessModes"]),
			columns.Column("Reclaim Policy", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["persistentVolumeReclaimPolicy"]),
			columns.Column("Status", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]),
			columns.Column("Claim", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["claimRef"]),
			columns.Column("StorageClass", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["storageClassName"]),
			columns.Column("VolumeAttributesClass", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			columns.Column("Reason", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]),
			columns.Wide("VolumeMode", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeMode"]),
		},
		Row: persistentVolumeRow,
		Fields: func(v *corev1.PersistentVolume) fields.Set {
			return fields.Set{"name": v.Name}
		},
	}
}

func persistentVolumeRow(v *corev1.PersistentVolume) []any {
	phase := string(v.Status.Phase)
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	claim := ""
	if c := v.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	mode := "<unset>"
	if v.Spec.VolumeMode != nil {
		mode = string(*v.Spec.VolumeMode)
	}
	return []any{v.Spec.Capacity.Storage().String(), podspec.AccessCell(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		v.Spec.StorageClassName, columns.OrUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, mode}
}

func defaultPersistentVolume(v *corev1.PersistentVolume) {
	s := &v.Spec
	fieldrules.DefaultValue(&v.Status.Phase, corev1.VolumePending)
	fieldrules.DefaultValue(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	fieldrules.DefaultPointer(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	podspec.RoundUp(s.Capacity)
	if h := s.HostPath; h != nil {
		fieldrules.DefaultPointer(&h.Type, corev1.HostPathUnset)
	}
	if i := s.ISCSI; i != nil {
		fieldrules.DefaultValue(&i.ISCSIInterface, "default")
	}
	if r := s.RBD; r != nil {
		podspec.DefaultRBD(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if a := s.AzureDisk; a != nil {
		podspec.DefaultAzureDisk(a)
	}
	if c := s.ScaleIO; c != nil {
		podspec.DefaultScaleIO(&c.StorageMode, &c.FSType)
	}
}

// validatePersistentVolume checks the spec of a persistent volume.
func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	s := &v.Spec
	errs := podspec.Access(s.AccessModes, &fieldrules.Spec)
	switch q, ok := s.Capacity[corev1.ResourceStorage]; {
	case len(s.Capacity) == 0:
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("capacity"), ""))
	case !ok || len(s.Capacity) > 1:
		errs = append(errs, field.NotSupported(fieldrules.Spec.ChildField("capacity"), s.Capacity, []string{string(corev1.ResourceStorage)}))
	case q.Sign() <= 0:
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("capacity").Key(string(corev1.ResourceStorage)), q.String(), "must be greater than zero"))
	}
	errs = append(errs, fieldrules.OneOf(s.PersistentVolumeReclaimPolicy, &fieldrules.Spec, "persistentVolumeReclaimPolicy",
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, fieldrules.OptionalOneOf(s.VolumeMode, &fieldrules.Spec, "volumeMode", corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	if s.StorageClassName != "" {
		errs = append(errs, fieldrules.DNSName(s.StorageClassName, &fieldrules.Spec, "storageClassName")...)
	}
	if a := s.NodeAffinity; a != nil {
		at := fieldrules.Spec.Child("nodeAffinity")
		if a.Required == nil {
			errs = append(errs, field.Required(at.ChildField("required"), "must specify required node constraints"))
		} else {
			must := at.Child("required")
			errs = append(errs, podspec.NodeSelector(a.Required, &must)...)
		}
	}
	return append(errs, persistentSource(&s.PersistentVolumeSource, s, &fieldrules.Spec)...)
}

// ValidateInlineVolume checks the spec of a volume that a VolumeAttachment has in place of the name
// of one.
func ValidateInlineVolume(s *corev1.PersistentVolumeSpec, w *fieldrules.Path) field.ErrorList {
	const inline = "in the context of inline volumes"
	var errs field.ErrorList
	if s.ClaimRef != nil {
		errs = append(errs, field.Forbidden(w.ChildField("claimRef"), "may not be specified "+inline))
	}
	if len(s.Capacity) > 0 {
		errs = append(errs, field.Forbidden(w.ChildField("capacity"), "may not be specified "+inline))
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(w.ChildField("csi"), "has to be specified "+inline))
	}
	errs = append(errs, podspec.Access(s.AccessModes, w)...)
	return append(errs, persistentSource(&s.PersistentVolumeSource, s, w)...)
}

// persistentSource checks that a persistent volume has exactly one source, and the source.
func persistentSource(v *corev1.PersistentVolumeSource, spec *corev1.PersistentVolumeSpec, w *fieldrules.Path) field.ErrorList {
	s := podspec.Sources{W: w}
	s.One("hostPath", v.HostPath != nil, func(at *fieldrules.Path) field.ErrorList { return podspec.HostPath(v.HostPath, at) })
	s.One("nfs", v.NFS != nil, func(at *fieldrules.Path) field.ErrorList { return podspec.NFS(v.NFS, at) })
	s.One("csi", v.CSI != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(podspec.Driver(v.CSI.Driver, at), fieldrules.Required(v.CSI.VolumeHandle, at, "volumeHandle")...)
	})
	s.One("local", v.Local != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.Local.Path, at, "path")
		if spec.NodeAffinity == nil {
			errs = append(errs, field.Required(fieldrules.Metadata.ChildField("annotations"), "Local volume requires node affinity"))
		}
		return append(errs, podspec.WithoutBacksteps(v.Local.Path, at, "path")...)
	})
	// No controller here supports the other sources: they are only counted.
	value := reflect.ValueOf(v).Elem()
	for i := range value.NumField() {
		switch name := kinds.JsonName(value.Type().Field(i)); name {
		case "hostPath", "nfs", "csi", "local":
		default:
			s.One(name, !value.Field(i).IsNil(), nil)
		}
	}
	if s.N == 0 {
		s.Errs = append(s.Errs, field.Required(w.Field(), "must specify a volume type"))
	}
	return s.Errs
}

func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, fieldrules.Immutable(v.Spec.NodeAffinity, old.Spec.NodeAffinity, &fieldrules.Spec, "nodeAffinity")...)
	}
	return append(errs, fieldrules.Immutable(v.Spec.VolumeMode, old.Spec.VolumeMode, &fieldrules.Spec, "volumeMode")...)
}
