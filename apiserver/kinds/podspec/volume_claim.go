package podspec

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// SetClaimDefaults sets the defaults of a PersistentVolumeClaim.
func SetClaimDefaults(c *corev1.PersistentVolumeClaim) {
	defaultClaimSpec(&c.Spec)
	RoundUp(c.Status.Capacity)
	RoundUp(c.Status.AllocatedResources)
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

// ValidateClaim checks the spec of a PersistentVolumeClaim. The old spec is nil on create.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeClaimSpec
//upstream:pkg/apis/core/validation.ValidationOptionsForPersistentVolumeClaim
func ValidateClaim(s, old *corev1.PersistentVolumeClaimSpec, fldPath *fieldrules.Path) field.ErrorList {
	errs := Access(s.AccessModes, fldPath, "at least 1 access mode is required")
	if s.Selector != nil {
		any := old != nil && len(fieldrules.LabelSelector(old.Selector, fldPath, "selector")) > 0
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: any}, fldPath.ChildField("selector"))...)
	}
	resources := fldPath.Child("resources")
	at := resources.Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at.Field(), ""))
	} else if q.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Field(), q.String(), "must be greater than zero"))
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		errs = append(errs, fieldrules.DNSName(*c, fldPath, "storageClassName")...)
	}
	errs = append(errs, fieldrules.OptionalOneOf(s.VolumeMode, fldPath, "volumeMode", corev1.PersistentVolumeBlock,
		corev1.PersistentVolumeFilesystem)...)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		errs = append(errs, fieldrules.DNSName(*c, fldPath, "volumeAttributesClassName")...)
	}
	anyGroup := old != nil && (old.DataSource != nil && old.DataSource.APIGroup != nil ||
		old.DataSourceRef != nil && old.DataSourceRef.APIGroup != nil)
	return append(errs, dataSources(s, anyGroup, fldPath)...)
}

// Access checks access modes. There must be at least one; none is the message if there is not.
func Access(modes []corev1.PersistentVolumeAccessMode, fldPath *fieldrules.Path, none string) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(fldPath.ChildField("accessModes"), none)}
	}
	var errs field.ErrorList
	once, other := false, false
	for _, m := range modes {
		if !slices.Contains(accessModes, m) {
			errs = append(errs, fieldrules.NotSupported(m, fldPath, "accessModes", accessModes)...)
			continue
		}
		once = once || m == corev1.ReadWriteOncePod
		other = other || m != corev1.ReadWriteOncePod
	}
	if once && other {
		errs = append(errs, field.Forbidden(fldPath.ChildField("accessModes"),
			"may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// dataSources checks the source of a claim's data, and that both fields for it are the same.
func dataSources(s *corev1.PersistentVolumeClaimSpec, anyGroup bool, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if d := s.DataSource; d != nil {
		at := fldPath.Child("dataSource")
		errs = append(errs, dataSource(d.APIGroup, d.Kind, d.Name, anyGroup, &at)...)
	}
	ref := s.DataSourceRef
	if ref == nil {
		return errs
	}
	at := fldPath.Child("dataSourceRef")
	errs = append(errs, dataSource(ref.APIGroup, ref.Kind, ref.Name, anyGroup, &at)...)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsLabel(*ref.Namespace, false), *ref.Namespace, &at, "namespace")...)
	}
	switch d := s.DataSource; {
	case d == nil:
	case elsewhere:
		errs = append(errs, field.Invalid(fldPath.Field(), struct{}{},
			"may not be specified when dataSourceRef.namespace is specified"))
	case d.Kind != ref.Kind || d.Name != ref.Name || !reflect.DeepEqual(d.APIGroup, ref.APIGroup):
		errs = append(errs, field.Invalid(fldPath.Field(), struct{}{}, "must match dataSourceRef"))
	}
	return errs
}

// dataSource checks a reference to the source of a claim's data.
func dataSource(apiGroup *string, kind, name string, anyGroup bool, at *fieldrules.Path) field.ErrorList {
	errs := append(fieldrules.Required(name, at, "name"), fieldrules.Required(kind, at, "kind")...)
	switch g := group(apiGroup); {
	case g != "" && anyGroup:
	case g != "":
		errs = append(errs, fieldrules.DNSName(g, at, "apiGroup")...)
	case kind != claimKind:
		errs = append(errs, field.Invalid(at.Field(), kind,
			"must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}

const (
	claimKind    = "PersistentVolumeClaim"
	snapshotKind = "VolumeSnapshot"
)

// group returns the API group of a reference, which is empty for the core group.
func group(g *string) string {
	if g == nil {
		return ""
	}
	return *g
}

// SetDataSources makes both fields for the source of a claim's data the same, as far as the source
// can be in both. A dataSource that is neither a claim nor a snapshot is dropped, unless the old
// claim, which is nil on create, has one.
func SetDataSources(s, old *corev1.PersistentVolumeClaimSpec) {
	if r := s.DataSourceRef; r != nil && r.Namespace != nil && *r.Namespace != "" && (old == nil || old.DataSourceRef == nil) {
		s.DataSourceRef = nil // the feature CrossNamespaceVolumeDataSource is off by default
	}
	d, ref := s.DataSource, s.DataSourceRef
	kept := old != nil && (old.DataSource != nil || old.DataSourceRef != nil)
	if d != nil && ref == nil && !kept {
		claim := d.Kind == claimKind && group(d.APIGroup) == ""
		snapshot := d.Kind == snapshotKind && group(d.APIGroup) == "snapshot.storage.k8s.io"
		if !claim && !snapshot {
			s.DataSource, d = nil, nil
		}
	}
	switch {
	case d != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: clone(d.APIGroup), Kind: d.Kind, Name: d.Name}
	case d == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: clone(ref.APIGroup), Kind: ref.Kind, Name: ref.Name}
	}
}

// clone returns a pointer to a copy of a string.
func clone(s *string) *string {
	if s == nil {
		return nil
	}
	return new(*s)
}
