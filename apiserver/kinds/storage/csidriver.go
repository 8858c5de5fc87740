package storage

import (
	"context"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
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
func validateCSIDriver(d *storagev1.CSIDriver) (errs field.ErrorList) {
	spec, s := check.Object(&errs).Child("spec"), &d.Spec
	present(spec.Child("attachedRequired"), s.AttachRequired)
	present(spec.Child("podInfoOnMount"), s.PodInfoOnMount)
	present(spec.Child("storageCapacity"), s.StorageCapacity)
	present(spec.Child("seLinuxMount"), s.SELinuxMount)
	present(spec.Child("preventPodSchedulingIfMissing"), s.PreventPodSchedulingIfMissing)
	check.OptionalOneOf(spec.Child("fsGroupPolicy"), s.FSGroupPolicy,
		storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	tokenRequests(spec.Child("tokenRequests"), s.TokenRequests)
	for _, mode := range s.VolumeLifecycleModes {
		check.Supported(spec.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	if p := s.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < minUpdateSeconds {
		spec.Child("nodeAllocatableUpdatePeriodSeconds").Invalid(*p, "must be greater than or equal to 10 seconds")
	}
	if in := s.ServiceAccountTokenInSecrets; in != nil && len(s.TokenRequests) == 0 {
		spec.Child("serviceAccountTokenInSecrets").Invalid(*in, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	return errs
}

func present[T any](at check.Field, value *T) {
	if value == nil {
		at.Required("")
	}
}

//upstream:pkg/apis/storage/validation.validateTokenRequests
func tokenRequests(list check.Field, requests []storagev1.TokenRequest) {
	var audiences fieldrules.Seen[string]
	for i, r := range requests {
		switch at := list.Index(i).Child("expirationSeconds"); {
		case !audiences.Add(r.Audience):
			list.Index(i).Child("audience").Duplicate(r.Audience)
		case r.ExpirationSeconds == nil:
		case *r.ExpirationSeconds < minTokenSeconds:
			at.Invalid(*r.ExpirationSeconds, "may not specify a duration less than 10 minutes")
		case *r.ExpirationSeconds > maxTokenSeconds:
			at.Invalid(*r.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds")
		}
	}
}

//upstream:pkg/apis/storage/validation.ValidateCSIDriverUpdate
func validateCSIDriverUpdate(d, old *storagev1.CSIDriver) (errs field.ErrorList) {
	spec := check.Object(&errs).Child("spec")
	check.Immutable(spec.Child("attachedRequired"), d.Spec.AttachRequired, old.Spec.AttachRequired)
	check.Immutable(spec.Child("volumeLifecycleModes"), d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)
	return errs
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
