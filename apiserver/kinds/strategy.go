package kinds

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/resource"
)

// strategy is a kind's strategy for upstream's registry: the rules that all kinds share, and then
// the rules of the kind.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind    *kind
	layout  layout
	reset   map[fieldpath.APIVersion]*fieldpath.Set
	version schema.GroupVersion                    // of kind.Type
	aliases []schema.GroupVersion                  // of kind.AlsoServed
	drop    dropper                                // of the Go type, or nil
	more    func(obj, old runtime.Object) []string // further warnings, or nil
}

var _ rest.RESTCreateUpdateStrategy = (*strategy)(nil)
var _ rest.RESTGracefulDeleteStrategy = (*strategy)(nil)
var _ rest.GarbageCollectionDeleteStrategy = (*strategy)(nil)

// rules returns the rules for objects in the group-version of a request.
func (s *strategy) rules(ctx context.Context) Alias[Object] {
	rules := Alias[Object]{Name: s.kind.Name, Validate: s.kind.Validate,
		ValidateCreate: s.kind.ValidateCreate, ValidateUpdate: s.kind.ValidateUpdate}
	if rules.Name == nil {
		rules.Name = apivalidation.NameIsDNSSubdomain
	}
	if len(s.aliases) == 0 {
		return rules
	}
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return rules
	}
	i := slices.Index(s.aliases, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion})
	if i < 0 {
		return rules
	}
	alias := s.kind.AlsoServed[i]
	if alias.Name == nil {
		alias.Name = rules.Name
	}
	if alias.Validate == nil {
		alias.Validate = rules.Validate
	}
	if alias.ValidateCreate == nil {
		alias.ValidateCreate = rules.ValidateCreate
	}
	if alias.ValidateUpdate == nil {
		alias.ValidateUpdate = rules.ValidateUpdate
	}
	return alias
}

// DefaultGarbageCollectionPolicy implements [rest.GarbageCollectionDeleteStrategy].
func (s *strategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	if s.kind.Orphans {
		return rest.OrphanDependents
	}
	return rest.DeleteDependents
}

func (s *strategy) NamespaceScoped() bool                    { return !s.kind.Cluster }
func (s *strategy) AllowCreateOnUpdate(context.Context) bool { return s.kind.CreateOnUpdate }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool {
	return !s.kind.NoUnconditionalUpdate
}

// Canonicalize implements [rest.RESTCreateStrategy] and [rest.RESTUpdateStrategy].
func (s *strategy) Canonicalize(obj runtime.Object) {
	if s.kind.Canonicalize != nil {
		s.kind.Canonicalize(obj.(Object))
	}
}

// resetFields returns the set of fields with these paths, in every version of the kind.
func (s *strategy) resetFields(paths []string) map[fieldpath.APIVersion]*fieldpath.Set {
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	if len(paths) == 0 {
		return reset
	}
	set := fieldpath.NewSet()
	for _, path := range paths {
		var elements []any
		for name := range strings.SplitSeq(path, ".") {
			elements = append(elements, name)
		}
		set.Insert(fieldpath.MakePathOrDie(elements...))
	}
	for _, v := range append([]schema.GroupVersion{s.version}, s.aliases...) {
		reset[fieldpath.APIVersion(v.String())] = set
	}
	return reset
}

func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return s.reset }

// dropFeatures empties the fields of features that are off.
func (s *strategy) dropFeatures(obj Object) {
	if s.drop != nil {
		s.drop(reflect.ValueOf(obj).Elem())
	}
}

func (s *strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	o := obj.(Object)
	s.dropFeatures(o)
	if s.kind.Generation {
		o.SetGeneration(1)
	}
	if s.kind.Status && !s.kind.StatusOnCreate {
		s.layout.status(o).SetZero()
	}
	if s.kind.Prepare != nil {
		s.kind.Prepare(ctx, o, nil)
	}
}

func (s *strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o, was := obj.(Object), old.(Object)
	s.dropFeatures(o)
	if s.kind.Status {
		s.layout.status(o).Set(s.layout.status(was))
	}
	if s.kind.Prepare != nil {
		s.kind.Prepare(ctx, o, was)
	}
	if s.kind.Generation && !s.layout.sameSpec(o, was) {
		o.SetGeneration(was.GetGeneration() + 1)
	}
}

//upstream:k8s.io/apimachinery/pkg/apis/meta/v1/validation.Validate_ObjectMeta
func (s *strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	o, rules := obj.(Object), s.rules(ctx)
	errs := apivalidation.ValidateObjectMetaAccessor(o, !s.kind.Cluster, rules.Name, metadataPath)
	errs = append(errs, s.finalizers(o)...)
	if s.kind.Authorize != nil {
		errs = append(errs, s.kind.Authorize(ctx, o)...)
	}
	if rules.Validate != nil {
		errs = append(errs, rules.Validate(o)...)
	}
	if rules.ValidateCreate != nil {
		errs = append(errs, rules.ValidateCreate(o)...)
	}
	return resource.Bounded(errs)
}

// finalizers returns the errors of the finalizers, on create and on every update.
func (s *strategy) finalizers(obj Object) field.ErrorList {
	names := obj.GetFinalizers()
	if len(names) == 0 || s.kind.AnyFinalizers {
		return nil
	}
	at := fieldrules.Metadata.Child("finalizers")
	return fieldrules.Finalizers(names, &at)
}

func (s *strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	o, was, rules := obj.(Object), old.(Object), s.rules(ctx)
	errs := append(apivalidation.ValidateObjectMetaAccessorUpdate(o, was, metadataPath), s.finalizers(o)...)
	if rules.Validate != nil {
		errs = append(errs, rules.Validate(o)...)
	}
	if rules.ValidateUpdate != nil {
		errs = append(errs, rules.ValidateUpdate(o, was)...)
	}
	return resource.Bounded(errs)
}

var _ rest.DeclarativeValidationStrategy = (*strategy)(nil)

// ValidateDeclaratively returns each error once, as kube-apiserver does for what it validates declaratively. The rules of a
// kind include the declared ones.
//
//upstream:k8s.io/apiserver/pkg/registry/rest.ValidateDeclarativelyWithMigrationChecks
func (s *strategy) ValidateDeclaratively(_ context.Context, _, _ runtime.Object, errs field.ErrorList, _ operation.Type, _ rest.DeclarativeValidationConfig) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	return errs.Filter()
}

// DeclarativeValidationConfig implements [rest.DeclarativeValidationStrategy].
func (s *strategy) DeclarativeValidationConfig(context.Context, runtime.Object, runtime.Object) rest.DeclarativeValidationConfig {
	return rest.DeclarativeValidationConfig{}
}

func (s *strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return s.warnings(obj.(Object), nil)
}

func (s *strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return s.warnings(obj.(Object), old.(Object))
}

// warnings returns the warnings for a write of an object. old is nil on create.
func (s *strategy) warnings(obj, old Object) []string {
	var all []string
	if k := s.kind; k.Unenforced != "" {
		all = append(all, fmt.Sprintf("this server stores %s but does not enforce them: %s", k.Plural, k.Unenforced))
	}
	if s.kind.Warnings != nil {
		all = append(all, s.kind.Warnings(obj, old)...)
	}
	if s.more != nil {
		all = append(all, s.more(obj, old)...)
	}
	return all
}

// CheckGracefulDelete sets the grace period of a deletion if the kind has one. A period of zero
// deletes at once.
//
//upstream:pkg/registry/core/pod.podStrategy.CheckGracefulDelete
func (s *strategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if s.kind.GracePeriod == nil || options == nil {
		return false
	}
	period := int64(s.kind.GracePeriod(obj.(Object)).Seconds())
	switch {
	case period == 0:
	case options.GracePeriodSeconds == nil:
	case *options.GracePeriodSeconds < 0:
		period = 1
	default:
		period = *options.GracePeriodSeconds
	}
	options.GracePeriodSeconds = &period
	return true
}

// statusStrategy updates the status and leaves everything else as it is stored.
type statusStrategy struct{ *strategy }

func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields(slices.Concat(s.layout.desiredNames, s.kind.StatusReset))
}

func (s statusStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (s statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o, was := obj.(Object), old.(Object)
	s.dropFeatures(o)
	s.layout.keepAllButStatus(o, was)
	if s.kind.PrepareStatus != nil {
		s.kind.PrepareStatus(ctx, o, was)
	}
}

func (s statusStrategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	if s.kind.StatusWarnings == nil {
		return nil
	}
	return s.kind.StatusWarnings(obj.(Object))
}

func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	o, was := obj.(Object), old.(Object)
	errs := append(apivalidation.ValidateObjectMetaAccessorUpdate(o, was, metadataPath), s.finalizers(o)...)
	if s.kind.AuthorizeStatus != nil {
		errs = append(errs, s.kind.AuthorizeStatus(ctx, o, was)...)
	}
	if s.kind.ValidateStatus != nil {
		errs = append(errs, s.kind.ValidateStatus(o, was)...)
	}
	return errs
}

// KeepMetadata is a PrepareStatus. With it, an update of the status does not change the metadata. The kind then
// has "metadata" in StatusReset.
//
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.ResetObjectMetaForStatus
func KeepMetadata[T Object](_ context.Context, obj, old T) { metav1.ResetObjectMetaForStatus(obj, old) }

// partStrategy updates a part of the object and leaves everything else as it is stored.
type partStrategy struct {
	*strategy
	part Part[Object]
}

func (s partStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

func (s partStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o := obj.(Object)
	s.dropFeatures(o)
	s.part.Prepare(ctx, o, old.(Object))
}

func (s partStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	o, was := obj.(Object), old.(Object)
	errs := append(apivalidation.ValidateObjectMetaAccessorUpdate(o, was, metadataPath), s.finalizers(o)...)
	return append(errs, s.part.Validate(o, was)...)
}

// customStrategy is the strategy of a kind's custom subresources, which may update all fields. Such an
// update is not a new generation: the binding of a pod, for example, does not change its desired
// state.
type customStrategy struct{ *strategy }

func (s customStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}

func (s customStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

func (s customStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// layout are the parts of a kind's Go struct besides TypeMeta and ObjectMeta: the status, and the
// fields of the desired state.
type layout struct {
	statusField  int // -1 without one
	desired      []int
	desiredNames []string // as in JSON
}

func layoutOf(t reflect.Type) layout {
	l := layout{statusField: -1}
	for i := range t.NumField() {
		switch f := t.Field(i); f.Name {
		case "TypeMeta", "ObjectMeta":
		case "Status":
			l.statusField = i
		default:
			l.desired = append(l.desired, i)
			l.desiredNames = append(l.desiredNames, JSONName(f))
		}
	}
	return l
}

func (l layout) status(obj any) reflect.Value {
	return reflect.ValueOf(obj).Elem().Field(l.statusField)
}

func (l layout) sameSpec(a, b any) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, i := range l.desired {
		if !equality.Semantic(x.Field(i).Addr().Interface(), y.Field(i).Addr().Interface()) {
			return false
		}
	}
	return true
}

func (l layout) keepAllButStatus(obj, old any) {
	to, from := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old).Elem()
	for _, i := range l.desired {
		to.Field(i).Set(from.Field(i))
	}
}
