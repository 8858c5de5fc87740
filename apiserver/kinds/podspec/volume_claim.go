package podspec

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/check"
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
func ValidateClaim(at check.Field, s, old *corev1.PersistentVolumeClaimSpec) {
	Access(at.Child("accessModes"), s.AccessModes, "at least 1 access mode is required")
	selector(at.Child("selector"), s.Selector,
		old != nil && check.Fails(func(at check.Field) { check.LabelSelector(at, old.Selector) }))
	storage := at.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		storage.Required("")
	} else if q.Sign() <= 0 {
		storage.Invalid(q.String(), "must be greater than zero")
	}
	check.Optional(at.Child("storageClassName"), s.StorageClassName, className)
	check.OptionalOneOf(at.Child("volumeMode"), s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	check.Optional(at.Child("volumeAttributesClassName"), s.VolumeAttributesClassName, className)
	anyGroup := old != nil && (old.DataSource != nil && old.DataSource.APIGroup != nil ||
		old.DataSourceRef != nil && old.DataSourceRef.APIGroup != nil)
	dataSources(at, s, anyGroup)
}

func className(at check.Field, name string) { check.IfSet(at, name, check.DNSName) }

// Access checks access modes. There must be at least one; none is the message if there is not.
func Access(at check.Field, modes []corev1.PersistentVolumeAccessMode, none string) {
	if len(modes) == 0 {
		at.Required(none)
		return
	}
	once, other := false, false
	for _, m := range modes {
		check.Supported(at, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		once = once || m == corev1.ReadWriteOncePod
		other = other || m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	}
	check.Forbid(at, once && other, "may not use ReadWriteOncePod with other access modes")
}

// dataSources checks the source of a claim's data, and that both fields for it are the same.
func dataSources(spec check.Field, s *corev1.PersistentVolumeClaimSpec, anyGroup bool) {
	if d := s.DataSource; d != nil {
		dataSource(spec.Child("dataSource"), d.APIGroup, d.Kind, d.Name, anyGroup)
	}
	ref := s.DataSourceRef
	if ref == nil {
		return
	}
	at := spec.Child("dataSourceRef")
	dataSource(at, ref.APIGroup, ref.Kind, ref.Name, anyGroup)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		check.Messages(at.Child("namespace"), *ref.Namespace, fieldrules.NameIsLabel(*ref.Namespace, false))
	}
	switch d := s.DataSource; {
	case d == nil:
	case elsewhere:
		spec.Invalid(struct{}{}, "may not be specified when dataSourceRef.namespace is specified")
	case d.Kind != ref.Kind || d.Name != ref.Name || !reflect.DeepEqual(d.APIGroup, ref.APIGroup):
		spec.Invalid(struct{}{}, "must match dataSourceRef")
	}
}

// dataSource checks a reference to the source of a claim's data.
func dataSource(at check.Field, apiGroup *string, kind, name string, anyGroup bool) {
	check.Required(at.Child("name"), name)
	check.Required(at.Child("kind"), kind)
	switch g := group(apiGroup); {
	case g != "" && anyGroup:
	case g != "":
		check.DNSName(at.Child("apiGroup"), g)
	case kind != claimKind:
		at.Invalid(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
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
