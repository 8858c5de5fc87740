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
		ValidateCreate: func(a *storagev1.VolumeAttachment) field.ErrorList {
			return append(fieldrules.AttacherName(a.Spec.Attacher, &fieldrules.Spec, "attacher"), validateAttachment(a)...)
		},
		Default: func(a *storagev1.VolumeAttachment) {
			if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
				core.DefaultVolumeSource(inline)
			}
		},
		ValidateUpdate: func(a, old *storagev1.VolumeAttachment) field.ErrorList {
			errs := append(fieldrules.DriverName(a.Spec.Attacher, &fieldrules.Spec, "attacher"), validateAttachment(a)...)
			return append(errs, fieldrules.ImmutableUnquoted(a.Spec, old.Spec, &fieldrules.Root, "spec")...)
		},
		Status:         true,
		PrepareStatus:  kinds.KeepMetadata[*storagev1.VolumeAttachment],
		StatusReset:    []string{"metadata"},
		ValidateStatus: func(a, _ *storagev1.VolumeAttachment) field.ErrorList { return validateAttachment(a) },
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
func validateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	errs := attachmentSource(&a.Spec.Source)
	errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(a.Spec.NodeName, false), a.Spec.NodeName, &fieldrules.Spec, "nodeName")...)
	size := 0
	for k, v := range a.Status.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(fieldrules.Status.ChildField("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	errs = append(errs, volumeError(a.Status.AttachError, "attachError")...)
	return append(errs, volumeError(a.Status.DetachError, "detachError")...)
}

// attachmentSource checks that a source is either the name of a volume or its spec.
//
//upstream:pkg/apis/storage/validation.validateVolumeAttachmentSource
func attachmentSource(s *storagev1.VolumeAttachmentSource) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	at := fieldrules.Spec.Child("source")
	var errs field.ErrorList
	switch name := s.PersistentVolumeName; {
	case s.InlineVolumeSpec == nil && name == nil:
		return field.ErrorList{field.Required(at.Field(), one)}
	case s.InlineVolumeSpec != nil && name != nil:
		errs = append(errs, field.Forbidden(at.Field(), one))
	case name == nil:
		core.ValidateInlineVolume(check.Object(&errs).Child("spec").Child("source").Child("inlineVolumeSpec"), s.InlineVolumeSpec)
		return errs
	case *name == "":
		errs = append(errs, field.Required(at.ChildField("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	return append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(*s.PersistentVolumeName, false), *s.PersistentVolumeName, &at, "persistentVolumeName")...)
}

//upstream:pkg/apis/storage/validation.validateVolumeError
func volumeError(e *storagev1.VolumeError, name string) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	at := fieldrules.Status.Child(name)
	if len(e.Message) > maxVolumeError {
		errs = append(errs, field.TooLong(at.ChildField("message"), "", maxVolumeError))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(at.ChildField("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}
