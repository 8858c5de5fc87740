package kinds

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func persistentVolumes() Kind {
	return Of[*corev1.PersistentVolume]{
		Type: &corev1.PersistentVolume{}, List: &corev1.PersistentVolumeList{},
		Plural: "persistentvolumes", ShortNames: []string{"pv"}, Cluster: true,
		Name:           subdomain,
		Default:        defaultPersistentVolume,
		Prepare:        func(_ context.Context, v, _ *corev1.PersistentVolume) { orSet(&v.Status.Phase, corev1.VolumePending) },
		Validate:       validatePersistentVolume,
		ValidateUpdate: validatePersistentVolumeUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			column("Capacity", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["capacity"]),
			column("Access Modes", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["accessModes"]),
			column("Reclaim Policy", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["persistentVolumeReclaimPolicy"]),
			column("Status", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]),
			column("Claim", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["claimRef"]),
			column("StorageClass", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["storageClassName"]),
			column("VolumeAttributesClass", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			column("Reason", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]),
			wide("VolumeMode", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeMode"]),
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
	return []any{v.Spec.Capacity.Storage().String(), accessCell(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		v.Spec.StorageClassName, orUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, mode}
}

func defaultPersistentVolume(v *corev1.PersistentVolume) {
	s := &v.Spec
	orSet(&v.Status.Phase, corev1.VolumePending)
	orSet(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	orElse(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Capacity)
	if h := s.HostPath; h != nil {
		orElse(&h.Type, corev1.HostPathUnset)
	}
	if i := s.ISCSI; i != nil {
		orSet(&i.ISCSIInterface, "default")
	}
	if r := s.RBD; r != nil {
		defaultRBD(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if a := s.AzureDisk; a != nil {
		defaultAzureDisk(a)
	}
	if c := s.ScaleIO; c != nil {
		defaultScaleIO(&c.StorageMode, &c.FSType)
	}
}

func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	s := &v.Spec
	errs := access(s.AccessModes, &specAt)
	switch q, ok := s.Capacity[corev1.ResourceStorage]; {
	case len(s.Capacity) == 0:
		errs = append(errs, field.Required(specAt.of("capacity"), ""))
	case !ok || len(s.Capacity) > 1:
		errs = append(errs, field.NotSupported(specAt.of("capacity"), s.Capacity, []string{string(corev1.ResourceStorage)}))
	case q.Sign() <= 0:
		errs = append(errs, field.Invalid(specAt.of("capacity").Key(string(corev1.ResourceStorage)), q.String(), "must be greater than zero"))
	}
	errs = append(errs, oneOf(s.PersistentVolumeReclaimPolicy, &specAt, "persistentVolumeReclaimPolicy",
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, oneOfIf(s.VolumeMode, &specAt, "volumeMode", corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	if s.StorageClassName != "" {
		errs = append(errs, dnsName(s.StorageClassName, &specAt, "storageClassName")...)
	}
	if a := s.NodeAffinity; a != nil {
		at := specAt.at("nodeAffinity")
		if a.Required == nil {
			errs = append(errs, field.Required(at.of("required"), "must specify required node constraints"))
		} else {
			must := at.at("required")
			errs = append(errs, nodeSelector(a.Required, &must)...)
		}
	}
	return append(errs, persistentSource(&s.PersistentVolumeSource, s)...)
}

func persistentSource(v *corev1.PersistentVolumeSource, spec *corev1.PersistentVolumeSpec) field.ErrorList {
	s := sources{w: &specAt}
	s.one("hostPath", v.HostPath != nil, func(at *where) field.ErrorList { return hostPath(v.HostPath, at) })
	s.one("nfs", v.NFS != nil, func(at *where) field.ErrorList { return nfs(v.NFS, at) })
	s.one("csi", v.CSI != nil, func(at *where) field.ErrorList {
		return append(driver(v.CSI.Driver, at), required(v.CSI.VolumeHandle, at, "volumeHandle")...)
	})
	s.one("local", v.Local != nil, func(at *where) field.ErrorList {
		errs := required(v.Local.Path, at, "path")
		if spec.NodeAffinity == nil {
			errs = append(errs, field.Required(metadataAt.of("annotations"), "Local volume requires node affinity"))
		}
		return append(errs, noBacksteps(v.Local.Path, at, "path")...)
	})
	// All other sources are systems that no controller of ours speaks to: they are only counted.
	value := reflect.ValueOf(v).Elem()
	for i := range value.NumField() {
		switch name := jsonName(value.Type().Field(i)); name {
		case "hostPath", "nfs", "csi", "local":
		default:
			s.one(name, !value.Field(i).IsNil(), nil)
		}
	}
	if s.n == 0 {
		s.errs = append(s.errs, field.Required(specAt.path(), "must specify a volume type"))
	}
	return s.errs
}

func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(specAt.of("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, unchanged(v.Spec.NodeAffinity, old.Spec.NodeAffinity, &specAt, "nodeAffinity")...)
	}
	return append(errs, unchanged(v.Spec.VolumeMode, old.Spec.VolumeMode, &specAt, "volumeMode")...)
}
