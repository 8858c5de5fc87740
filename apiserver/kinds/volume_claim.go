package kinds

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func persistentVolumeClaims() Kind {
	return Of[*corev1.PersistentVolumeClaim]{
		Type: &corev1.PersistentVolumeClaim{}, List: &corev1.PersistentVolumeClaimList{},
		Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		ReturnsDeleted: true,
		Name:           subdomain,
		Default:        defaultClaim,
		Prepare: func(_ context.Context, c, _ *corev1.PersistentVolumeClaim) {
			orSet(&c.Status.Phase, corev1.ClaimPending)
		},
		Validate:       func(c *corev1.PersistentVolumeClaim) field.ErrorList { return claimSpec(&c.Spec, &specAt) },
		ValidateUpdate: validateClaimUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			column("Status", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]),
			column("Volume", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]),
			column("Capacity", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]),
			column("Access Modes", "string", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]),
			column("StorageClass", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["storageClassName"]),
			column("VolumeAttributesClass", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			wide("VolumeMode", "string", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"]),
		},
		Row: claimRow,
	}
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	defaultClaimSpec(&c.Spec)
	orSet(&c.Status.Phase, corev1.ClaimPending)
}

func claimRow(c *corev1.PersistentVolumeClaim) []any {
	status := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		status = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		capacity, modes = c.Status.Capacity.Storage().String(), accessCell(c.Status.AccessModes)
	}
	mode := "<unset>"
	if c.Spec.VolumeMode != nil {
		mode = string(*c.Spec.VolumeMode)
	}
	return []any{status, c.Spec.VolumeName, capacity, modes, orEmpty(c.Spec.StorageClassName), orUnset(c.Spec.VolumeAttributesClassName), mode}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orUnset(s *string) string {
	if s == nil {
		return "<unset>"
	}
	return *s
}

var accessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod}

// accessCell shortens access modes to their initials.
func accessCell(modes []corev1.PersistentVolumeAccessMode) string {
	initials := []string{"RWO", "ROX", "RWX", "RWOP"}
	var cells []string
	for i, m := range accessModes {
		if slices.Contains(modes, m) {
			cells = append(cells, initials[i])
		}
	}
	return strings.Join(cells, ",")
}

func claimSpec(s *corev1.PersistentVolumeClaimSpec, w *where) field.ErrorList {
	errs := access(s.AccessModes, w)
	errs = append(errs, labelSelector(s.Selector, w, "selector")...)
	at := w.at("resources")
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at.of("requests").Key(string(corev1.ResourceStorage)), ""))
	} else if q.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.of("requests").Key(string(corev1.ResourceStorage)), q.String(), "must be greater than zero"))
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		errs = append(errs, dnsName(*c, w, "storageClassName")...)
	}
	errs = append(errs, oneOfIf(s.VolumeMode, w, "volumeMode", corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	return append(errs, dataSource(s, w)...)
}

func access(modes []corev1.PersistentVolumeAccessMode, w *where) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(w.of("accessModes"), "at least 1 access mode is required")}
	}
	var errs field.ErrorList
	for _, m := range modes {
		if !slices.Contains(accessModes, m) {
			errs = append(errs, notSupported(m, w, "accessModes", accessModes)...)
		}
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(w.of("accessModes"), "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func dataSource(s *corev1.PersistentVolumeClaimSpec, w *where) field.ErrorList {
	d := s.DataSource
	if d == nil {
		return nil
	}
	at := w.at("dataSource")
	errs := append(required(d.Name, &at, "name"), required(d.Kind, &at, "kind")...)
	if d.Kind != "PersistentVolumeClaim" && (d.APIGroup == nil || *d.APIGroup == "") {
		errs = append(errs, field.Invalid(at.path(), d.Kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}

// validateClaimUpdate lets a claim be bound to a volume, and ask for more storage once it is.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	now := c.Spec.DeepCopy()
	if old.Spec.VolumeName == "" {
		now.VolumeName = ""
	}
	if old.Spec.StorageClassName == nil {
		now.StorageClassName = nil
	}
	now.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	var errs field.ErrorList
	asked, had := now.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if old.Status.Phase == corev1.ClaimBound && now.Resources.Requests != nil {
		now.Resources.Requests[corev1.ResourceStorage] = had.DeepCopy()
		if asked.Cmp(had) < 0 {
			errs = append(errs, field.Forbidden(specAt.of("resources").Child("requests", "storage"), "field can not be less than status.capacity"))
		}
	}
	if !apiequality.Semantic.DeepEqual(*now, old.Spec) {
		errs = append(errs, field.Forbidden(specAt.path(), "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}
