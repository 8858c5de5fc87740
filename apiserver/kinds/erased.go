package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// kind is the description of a kind without its Go type. The engine uses kind instead of Of[T], because the compiler makes
// the methods of a generic type, and of all that it embeds, for each kind again: 15,000 functions in each program with a
// server.
type kind Of[Object]

// erased returns the description with functions that take any object. The functions panic if an object has another type.
func (k *Of[T]) erased() *kind {
	e := &kind{
		Type:                  k.Type,
		List:                  k.List,
		Plural:                k.Plural,
		Singular:              k.Singular,
		ShortNames:            k.ShortNames,
		Categories:            k.Categories,
		Cluster:               k.Cluster,
		Name:                  k.Name,
		AnyFinalizers:         k.AnyFinalizers,
		Default:               eraseChange(k.Default),
		Prepare:               erasePrepare(k.Prepare),
		Validate:              eraseUnary(k.Validate),
		ValidateCreate:        eraseUnary(k.ValidateCreate),
		ValidateUpdate:        eraseBinary(k.ValidateUpdate),
		Canonicalize:          eraseChange(k.Canonicalize),
		Warnings:              eraseBinary(k.Warnings),
		StatusWarnings:        eraseUnary(k.StatusWarnings),
		Unenforced:            k.Unenforced,
		Status:                k.Status,
		StatusOnCreate:        k.StatusOnCreate,
		PrepareStatus:         erasePrepare(k.PrepareStatus),
		StatusReset:           k.StatusReset,
		ValidateStatus:        eraseBinary(k.ValidateStatus),
		Scale:                 k.Scale.erased(),
		Reset:                 k.Reset,
		Generation:            k.Generation,
		NoUnconditionalUpdate: k.NoUnconditionalUpdate,
		CreateOnUpdate:        k.CreateOnUpdate,
		GracePeriod:           eraseUnary(k.GracePeriod),
		DeletesOnUpdate:       eraseBinary(k.DeletesOnUpdate),
		ReturnsDeleted:        k.ReturnsDeleted,
		BeforeDelete:          k.BeforeDelete,
		Orphans:               k.Orphans,
		TTL:                   k.TTL,
		Terminate:             eraseUnary(k.Terminate),
		Columns:               k.Columns,
		Bare:                  k.Bare,
		Row:                   eraseUnary(k.Row),
		Fields:                eraseUnary(k.Fields),
		Indexed:               k.Indexed,
		FieldAliases:          k.FieldAliases,
	}
	if k.Authorize != nil {
		e.Authorize = func(ctx context.Context, obj Object) field.ErrorList { return k.Authorize(ctx, obj.(T)) }
	}
	if k.AuthorizeStatus != nil {
		e.AuthorizeStatus = func(ctx context.Context, obj, old Object) field.ErrorList {
			return k.AuthorizeStatus(ctx, obj.(T), typed[T](old))
		}
	}
	if k.Allocator != nil {
		e.Allocator = func(s Stored[Object]) ResourceAllocator[Object] {
			return eraseAllocator(k.Allocator(typedStored[T](s)))
		}
	}
	if k.More != nil {
		e.More = func(s Stored[Object]) map[string]rest.Storage { return k.More(typedStored[T](s)) }
	}
	if k.Parts != nil {
		e.Parts = map[string]Part[Object]{}
	}
	for name, p := range k.Parts {
		e.Parts[name] = Part[Object]{Prepare: erasePrepare(p.Prepare), Validate: eraseBinary(p.Validate), Filter: p.Filter}
	}
	for _, a := range k.AlsoServed {
		e.AlsoServed = append(e.AlsoServed, Alias[Object]{Type: a.Type, Default: a.Default, Name: a.Name, Fields: a.Fields,
			Validate: eraseUnary(a.Validate), ValidateCreate: eraseUnary(a.ValidateCreate), ValidateUpdate: eraseBinary(a.ValidateUpdate)})
	}
	return e
}

func (s *ScaleOf[T]) erased() *ScaleOf[Object] {
	if s == nil {
		return nil
	}
	return &ScaleOf[Object]{
		Replicas:       eraseUnary(s.Replicas),
		SetReplicas:    func(obj Object, n int32) { s.SetReplicas(obj.(T), n) },
		StatusReplicas: eraseUnary(s.StatusReplicas),
		Selector:       eraseUnary(s.Selector),
	}
}

// typed returns an object with its Go type. No object, as the old object of a create, is a nil pointer.
func typed[T Object](obj Object) (t T) {
	if obj != nil {
		t = obj.(T)
	}
	return t
}

func eraseUnary[T Object, R any](f func(T) R) func(Object) R {
	if f == nil {
		return nil
	}
	return func(obj Object) R { return f(obj.(T)) }
}

func eraseBinary[T Object, R any](f func(obj, old T) R) func(obj, old Object) R {
	if f == nil {
		return nil
	}
	return func(obj, old Object) R { return f(obj.(T), typed[T](old)) }
}

func eraseChange[T Object](f func(T)) func(Object) {
	if f == nil {
		return nil
	}
	return func(obj Object) { f(obj.(T)) }
}

func erasePrepare[T Object](f func(ctx context.Context, obj, old T)) func(ctx context.Context, obj, old Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj, old Object) { f(ctx, obj.(T), typed[T](old)) }
}

// allocator is a [ResourceAllocator] of functions.
type allocator struct {
	allocate        func(ctx context.Context, obj, old Object, dryRun bool) (func(), error)
	commit, release func(Object)
	reset           func()
}

var _ ResourceAllocator[Object] = allocator{}

func eraseAllocator[T Object](a ResourceAllocator[T]) allocator {
	return allocator{
		allocate: func(ctx context.Context, obj, old Object, dryRun bool) (func(), error) {
			return a.Allocate(ctx, obj.(T), typed[T](old), dryRun)
		},
		commit:  eraseChange(a.Commit),
		release: eraseChange(a.Release),
		reset:   a.Reset,
	}
}

func (a allocator) Allocate(ctx context.Context, obj, old Object, dryRun bool) (release func(), err error) {
	return a.allocate(ctx, obj, old, dryRun)
}

func (a allocator) Commit(obj Object)  { a.commit(obj) }
func (a allocator) Release(obj Object) { a.release(obj) }
func (a allocator) Reset()             { a.reset() }

// typedStored returns the access to the same objects, with their Go type.
func typedStored[T Object](s Stored[Object]) Stored[T] { return stored[T](s.(stored[Object])) }
