package storage

import (
	"context"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// CSIDrivers describes the kind CSIDriver.
//
//upstream:pkg/registry/storage/csidriver.csiDriverStrategy
//upstream:pkg/printers/internalversion.printCSIDriver
func CSIDrivers() kinds.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return kinds.Of[*storagev1.CSIDriver]{
		Type: &storagev1.CSIDriver{}, List: &storagev1.CSIDriverList{},
		Plural: "csidrivers", ReturnsDeleted: true, Cluster: true, NoUnconditionalUpdate: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultCSIDriver,
		Prepare:        prepareCSIDriver,
		Validate:       validateCSIDriver,
		ValidateUpdate: validateCSIDriverUpdate,
		Warnings:       warnOfTokens,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("AttachRequired", "boolean", doc["attachRequired"]),
			columns.Column("PodInfoOnMount", "boolean", doc["podInfoOnMount"]),
			columns.Column("StorageCapacity", "boolean", doc["storageCapacity"]),
			columns.Column("TokenRequests", "string", doc["tokenRequests"]),
			columns.Column("RequiresRepublish", "boolean", doc["requiresRepublish"]),
			columns.Column("Modes", "string", doc["volumeLifecycleModes"]),
		},
		Row: csiDriverRow,
	}
}

//upstream:pkg/apis/storage/v1.SetDefaults_CSIDriver
func defaultCSIDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	fieldrules.DefaultPointer(&s.AttachRequired, true)
	fieldrules.DefaultPointer(&s.PodInfoOnMount, false)
	fieldrules.DefaultPointer(&s.StorageCapacity, false)
	fieldrules.DefaultPointer(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	fieldrules.DefaultPointer(&s.RequiresRepublish, false)
	fieldrules.DefaultPointer(&s.SELinuxMount, false)
	fieldrules.DefaultPointer(&s.PreventPodSchedulingIfMissing, false)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// prepareCSIDriver counts the changes of the spec. A new CSIDriver has no generation, unlike other kinds.
//
//upstream:pkg/registry/storage/csidriver.csiDriverStrategy.PrepareForUpdate
func prepareCSIDriver(_ context.Context, d, old *storagev1.CSIDriver) {
	if old != nil && !equality.Semantic(d.Spec, old.Spec) {
		d.Generation = old.Generation + 1
	}
}

// Limits of the requested tokens and of the update period, in seconds.
const (
	minTokenSeconds  = 600
	maxTokenSeconds  = 1 << 32
	minUpdateSeconds = 10
)

// validateCSIDriver checks the spec of a driver. kube-apiserver misspells the path of attachRequired.
//
//upstream:pkg/apis/storage/validation.ValidateCSIDriver
//upstream:pkg/apis/storage/validation.validateCSIDriverSpec
func validateCSIDriver(d *storagev1.CSIDriver) field.ErrorList {
	var errs field.ErrorList
	s := &d.Spec
	for _, required := range [...]struct {
		value *bool
		name  string
	}{
		{s.AttachRequired, "attachedRequired"}, {s.PodInfoOnMount, "podInfoOnMount"},
		{s.StorageCapacity, "storageCapacity"}, {s.SELinuxMount, "seLinuxMount"},
		{s.PreventPodSchedulingIfMissing, "preventPodSchedulingIfMissing"},
	} {
		if required.value == nil {
			errs = append(errs, field.Required(fieldrules.Spec.ChildField(required.name), ""))
		}
	}
	errs = append(errs, fieldrules.OptionalOneOf(s.FSGroupPolicy, &fieldrules.Spec, "fsGroupPolicy",
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)...)
	errs = append(errs, tokenRequests(s.TokenRequests)...)
	for _, mode := range s.VolumeLifecycleModes {
		if mode != storagev1.VolumeLifecyclePersistent && mode != storagev1.VolumeLifecycleEphemeral {
			errs = append(errs, field.NotSupported(fieldrules.Spec.ChildField("volumeLifecycleModes"), mode,
				[]storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}))
		}
	}
	if p := s.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < minUpdateSeconds {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("nodeAllocatableUpdatePeriodSeconds"), *p, "must be greater than or equal to 10 seconds"))
	}
	if in := s.ServiceAccountTokenInSecrets; in != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("serviceAccountTokenInSecrets"), *in, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

//upstream:pkg/apis/storage/validation.validateTokenRequests
func tokenRequests(requests []storagev1.TokenRequest) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Spec.Child("tokenRequests")
	audiences := map[string]bool{}
	for i, r := range requests {
		at := list.Index(i)
		if audiences[r.Audience] {
			errs = append(errs, field.Duplicate(at.ChildField("audience"), r.Audience))
			continue
		}
		audiences[r.Audience] = true
		if r.ExpirationSeconds == nil {
			continue
		}
		if *r.ExpirationSeconds < minTokenSeconds {
			errs = append(errs, field.Invalid(at.ChildField("expirationSeconds"), *r.ExpirationSeconds, "may not specify a duration less than 10 minutes"))
		}
		if *r.ExpirationSeconds > maxTokenSeconds {
			errs = append(errs, field.Invalid(at.ChildField("expirationSeconds"), *r.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

//upstream:pkg/apis/storage/validation.ValidateCSIDriverUpdate
func validateCSIDriverUpdate(d, old *storagev1.CSIDriver) field.ErrorList {
	errs := fieldrules.Immutable(d.Spec.AttachRequired, old.Spec.AttachRequired, &fieldrules.Spec, "attachedRequired")
	return append(errs, fieldrules.Immutable(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, &fieldrules.Spec, "volumeLifecycleModes")...)
}

// warnOfTokens warns about new tokens in volume attributes: a driver may log these.
//
//upstream:pkg/registry/storage/csidriver.csiDriverStrategy.WarningsOnCreate
//upstream:pkg/registry/storage/csidriver.csiDriverStrategy.WarningsOnUpdate
func warnOfTokens(d, old *storagev1.CSIDriver) []string {
	s := &d.Spec
	if len(s.TokenRequests) == 0 || s.ServiceAccountTokenInSecrets != nil ||
		old != nil && equality.Semantic(s.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

//upstream:pkg/printers/internalversion.printCSIDriver
func csiDriverRow(d *storagev1.CSIDriver) []any {
	s := &d.Spec
	isTrue := func(b *bool) bool { return b != nil && *b }
	tokens := "<unset>"
	if s.TokenRequests != nil {
		var audiences []string
		for _, r := range s.TokenRequests {
			audiences = append(audiences, r.Audience)
		}
		tokens = strings.Join(audiences, ",")
	}
	var modes []string
	for _, m := range s.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	return []any{s.AttachRequired == nil || *s.AttachRequired, isTrue(s.PodInfoOnMount), isTrue(s.StorageCapacity), tokens,
		isTrue(s.RequiresRepublish), columns.OrNone(strings.Join(modes, ","))}
}
