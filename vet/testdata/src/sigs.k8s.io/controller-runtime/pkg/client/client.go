package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

type ObjectKey = types.NamespacedName

type Object interface {
	metav1.Object
	runtime.Object
}

type ObjectList interface{ runtime.Object }

type (
	GetOption               interface{ get() }
	ListOption              interface{ list() }
	CreateOption            interface{ create() }
	UpdateOption            interface{ update() }
	PatchOption             interface{ patch() }
	DeleteOption            interface{ delete() }
	DeleteAllOfOption       interface{ list() }
	SubResourceUpdateOption interface{ update() }
	SubResourcePatchOption  interface{ patch() }
	Patch                   interface{ Type() string }
)

type Reader interface {
	Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error
	List(ctx context.Context, list ObjectList, opts ...ListOption) error
}

type Writer interface {
	Create(ctx context.Context, obj Object, opts ...CreateOption) error
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
	Update(ctx context.Context, obj Object, opts ...UpdateOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error
}

type SubResourceWriter interface {
	Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error
}

type Client interface {
	Reader
	Writer
	Status() SubResourceWriter
}

type InNamespace string

func (InNamespace) list() {}

type MatchingLabels map[string]string

func (MatchingLabels) list() {}

type ListOptions struct {
	Namespace     string
	LabelSelector any
}

func (*ListOptions) list() {}

type GracePeriodSeconds int64

func (GracePeriodSeconds) list() {}

type Limit int64

func (Limit) list() {}

type FieldOwner string

func (FieldOwner) patch() {}

type forceOwnership struct{}

func (forceOwnership) patch() {}

var ForceOwnership forceOwnership

var Apply Patch

func IgnoreNotFound(err error) error { return err }

func IgnoreAlreadyExists(err error) error { return err }

func ObjectKeyFromObject(o Object) ObjectKey { return ObjectKey{} }

func MergeFrom(o Object) Patch { return nil }
