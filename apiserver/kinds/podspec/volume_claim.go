package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// SetClaimDefaults sets the defaults of a PersistentVolumeClaim.
func SetClaimDefaults(c *corev1.PersistentVolumeClaim) {
	defaultClaimSpec(&c.Spec)
	fieldrules.DefaultValue(&c.Status.Phase, corev1.ClaimPending)
}

var accessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany,
	corev1.ReadWriteMany, corev1.ReadWriteOncePod}

// AccessCell shortens access modes to their initials.
func AccessCell(modes []corev1.PersistentVolumeAccessMode) string {
	initials := []string{"RWO", "ROX", "RWX", "RWOP"}
	var cells []string
	for i, m := range accessModes {
		if slices.Contains(modes, m) {
			cells = append(cells, initials[i])
		}
	}
	return strings.Join(cells, ",")
}

// ValidateClaim returns the errors of the spec of a PersistentVolumeClaim.
func ValidateClaim(s *corev1.PersistentVolumeClaimSpec, fldPath *fieldrules.Path) field.ErrorList {
	errs := Access(s.AccessModes, fldPath)
	errs = append(errs, fieldrules.LabelSelector(s.Selector, fldPath, "selector")...)
	at := fldPath.Child("resources")
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at.Field().Key(string(corev1.ResourceStorage)), ""))
	} else if q.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Field().Key(string(corev1.ResourceStorage)),
			q.String(), "must be greater than zero"))
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		errs = append(errs, fieldrules.DNSName(*c, fldPath, "storageClassName")...)
	}
	errs = append(errs, fieldrules.OptionalOneOf(s.VolumeMode, fldPath, "volumeMode", corev1.PersistentVolumeBlock,
		corev1.PersistentVolumeFilesystem)...)
	return append(errs, dataSource(s, fldPath)...)
}

// Access checks access modes, of which there must be one.
func Access(modes []corev1.PersistentVolumeAccessMode, fldPath *fieldrules.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(fldPath.ChildField("accessModes"), "at least 1 access mode is required")}
	}
	var errs field.ErrorList
	for _, m := range modes {
		if !slices.Contains(accessModes, m) {
			errs = append(errs, fieldrules.NotSupported(m, fldPath, "accessModes", accessModes)...)
		}
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(fldPath.ChildField("accessModes"),
			"may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func dataSource(s *corev1.PersistentVolumeClaimSpec, fldPath *fieldrules.Path) field.ErrorList {
	d := s.DataSource
	if d == nil {
		return nil
	}
	at := fldPath.Child("dataSource")
	errs := append(fieldrules.Required(d.Name, &at, "name"), fieldrules.Required(d.Kind, &at, "kind")...)
	if d.Kind != "PersistentVolumeClaim" && (d.APIGroup == nil || *d.APIGroup == "") {
		errs = append(errs, field.Invalid(at.Field(), d.Kind,
			"must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}
