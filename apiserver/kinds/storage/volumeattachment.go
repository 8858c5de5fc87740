package storage

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// VolumeAttachments describes the kind VolumeAttachment.
//
//upstream:pkg/registry/storage/volumeattachment.volumeAttachmentStrategy
//upstream:pkg/registry/storage/volumeattachment.volumeAttachmentStatusStrategy
//upstream:pkg/apis/storage/validation.ValidateVolumeAttachmentUpdate
//upstream:pkg/printers/internalversion.printVolumeAttachment
func VolumeAttachments() kinds.Kind {
	return kinds.Of[*storagev1.VolumeAttachment]{
		Type: &storagev1.VolumeAttachment{}, List: &storagev1.VolumeAttachmentList{},
		Plural: "volumeattachments", ReturnsDeleted: true, Cluster: true, NoUnconditionalUpdate: true,
		Name: fieldrules.NameIsSubdomain,
		ValidateCreate: func(a *storagev1.VolumeAttachment) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.AttacherName(object.Child("spec").Child("attacher"), a.Spec.Attacher)
			attachment(object, a)
			return errs
		},
		Default: func(a *storagev1.VolumeAttachment) {
			if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
				core.DefaultVolumeSource(inline)
			}
		},
		ValidateUpdate: func(a, old *storagev1.VolumeAttachment) (errs field.ErrorList) {
			object := check.Object(&errs)
			check.DriverName(object.Child("spec").Child("attacher"), a.Spec.Attacher)
			attachment(object, a)
			check.ImmutableWithoutValue(object.Child("spec"), a.Spec, old.Spec)
			return errs
		},
		Status:        true,
		PrepareStatus: kinds.KeepMetadata[*storagev1.VolumeAttachment],
		StatusReset:   []string{"metadata"},
		ValidateStatus: func(a, _ *storagev1.VolumeAttachment) (errs field.ErrorList) {
			attachment(check.Object(&errs), a)
			return errs
		},
		Columns: []metav1.TableColumnDefinition{
			{Name: "Attacher", Type: "string", Format: "name", Description: storagev1.VolumeAttachmentSpec{}.SwaggerDoc()["attacher"]},
			columns.Column("PV", "string", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			columns.Column("Node", "string", storagev1.VolumeAttachmentSpec{}.SwaggerDoc()["nodeName"]),
			columns.Column("Attached", "boolean", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
		},
		Row: func(a *storagev1.VolumeAttachment) []any {
			return []any{a.Spec.Attacher, columns.OrEmpty(a.Spec.Source.PersistentVolumeName), a.Spec.NodeName, a.Status.Attached}
		},
	}
}

// Limits of the status of an attachment, in bytes.
const (
	maxAttachmentMetadata = 256 << 10
	maxVolumeError        = 1024
)

//upstream:pkg/apis/storage/validation.ValidateVolumeAttachment
//upstream:pkg/apis/storage/validation.validateVolumeAttachmentSpec
//upstream:pkg/apis/storage/validation.validateVolumeAttachmentStatus
//upstream:pkg/apis/storage/validation.validateAttachmentMetadata
func attachment(object check.Field, a *storagev1.VolumeAttachment) {
	spec, status := object.Child("spec"), object.Child("status")
	attachmentSource(spec.Child("source"), &a.Spec.Source)
	check.DNSName(spec.Child("nodeName"), a.Spec.NodeName)
	size := 0
	for k, v := range a.Status.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxAttachmentMetadata {
		status.Child("attachmentMetadata").TooLong(maxAttachmentMetadata)
	}
	check.Optional(status.Child("attachError"), a.Status.AttachError, volumeError)
	check.Optional(status.Child("detachError"), a.Status.DetachError, volumeError)
}

// attachmentSource checks that a source is either the name of a volume or its spec.
//
//upstream:pkg/apis/storage/validation.validateVolumeAttachmentSource
func attachmentSource(at check.Field, s *storagev1.VolumeAttachmentSource) {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	inline, volume, name := at.Child("inlineVolumeSpec"), at.Child("persistentVolumeName"), s.PersistentVolumeName
	switch {
	case s.InlineVolumeSpec == nil && name == nil:
		at.Required(one)
	case s.InlineVolumeSpec != nil && name != nil:
		at.Forbidden(one)
	case name == nil:
		core.ValidateInlineVolume(inline, s.InlineVolumeSpec)
	case *name == "":
		volume.Required("must specify non empty persistentVolumeName")
	}
	check.Optional(volume, name, check.DNSName)
}

//upstream:pkg/apis/storage/validation.validateVolumeError
func volumeError(at check.Field, e storagev1.VolumeError) {
	if len(e.Message) > maxVolumeError {
		at.Child("message").TooLong(maxVolumeError)
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		at.Child("errorCode").Invalid(*e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32))
	}
}
