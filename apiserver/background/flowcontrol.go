package background

import (
	"context"
	stderrors "errors"
	"fmt"
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/store"
)

// flowControl is an object of API priority and fairness that every server has. The server reverts all changes to the
// spec of a mandatory object.
type flowControl struct {
	resource  schema.GroupVersionResource
	object    kinds.Object
	mandatory bool
}

// flowControls returns new copies of the objects of API priority and fairness, with defaults.
//
//upstream:none k8s.io/apiserver describes the objects.
func flowControls() (all []flowControl) {
	add := func(resource string, obj kinds.Object, mandatory bool) {
		builtin.Scheme().Default(obj)
		all = append(all, flowControl{flowcontrolv1.SchemeGroupVersion.WithResource(resource), obj, mandatory})
	}
	for mandatory, levels := range map[bool][]*flowcontrolv1.PriorityLevelConfiguration{
		true: bootstrap.MandatoryPriorityLevelConfigurations, false: bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, level := range levels {
			add("prioritylevelconfigurations", level.DeepCopy(), mandatory)
		}
	}
	for mandatory, flows := range map[bool][]*flowcontrolv1.FlowSchema{
		true: bootstrap.MandatoryFlowSchemas, false: bootstrap.SuggestedFlowSchemas} {
		for _, flow := range flows {
			add("flowschemas", flow.DeepCopy(), mandatory)
		}
	}
	return all
}

// keepFlowControl keeps the objects of API priority and fairness until the server stops.
//
//upstream:pkg/registry/flowcontrol/rest.ensure
func (c *Controllers) keepFlowControl() error {
	changed, err := c.loops.changes([]string{store.Path(flowcontrolv1.Resource("flowschemas")),
		store.Path(flowcontrolv1.Resource("prioritylevelconfigurations"))})
	if err != nil {
		return err
	}
	c.loops.keep("API priority and fairness", changed, func() (err error) {
		wanted := map[schema.GroupVersionResource][]flowControl{}
		for _, f := range flowControls() {
			wanted[f.resource] = append(wanted[f.resource], f)
		}
		for resource, objects := range wanted {
			err = stderrors.Join(err, c.objects.reconcileFlowControl(resource, objects))
		}
		return err
	})
	return nil
}

// reconcileFlowControl creates and corrects the objects of a kind, and deletes auto-updated objects that this version
// of the server does not have.
//
//upstream:pkg/registry/flowcontrol/ensurer.EnsureConfiguration
//upstream:pkg/registry/flowcontrol/ensurer.RemoveUnwantedObjects
func (o *objects) reconcileFlowControl(resource schema.GroupVersionResource, wanted []flowControl) error {
	list, err := o.registry(resource).(rest.Lister).List(context.Background(), &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	current := map[string]kinds.Object{}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		is := obj.(kinds.Object)
		current[is.GetName()] = is
		return nil
	}); err != nil {
		return err
	}
	var errs []error
	failed := func(name string, err error) {
		if err = ignoreChanged(err); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", resource.Resource, name, err))
		}
	}
	names := sets.New[string]()
	for _, w := range wanted {
		name := w.object.GetName()
		names.Insert(name)
		is := current[name]
		switch {
		case is == nil:
			_, err := o.seed(resource, w.object.DeepCopyObject().(kinds.Object))
			failed(name, err)
		case w.revise(is.DeepCopyObject().(kinds.Object)):
			failed(name, o.replace(resource, "", name, func(obj runtime.Object) { w.revise(obj.(kinds.Object)) }))
		}
	}
	for name, is := range current {
		if update, err := strconv.ParseBool(is.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil && update && !names.Has(name) {
			failed(name, o.remove(resource, "", name, metav1.NewUIDPreconditions(string(is.GetUID()))))
		}
	}
	return stderrors.Join(errs...)
}

// revise corrects the spec and the annotation that allows the server to update the spec, and reports whether it has
// changed anything. It leaves the spec of a suggested object alone if the annotation is "false", or if the annotation
// is missing and the spec was changed.
//
//upstream:pkg/registry/flowcontrol/ensurer.strategy.ReviseIfNeeded
func (f *flowControl) revise(is kinds.Object) bool {
	annotated, err := strconv.ParseBool(is.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	update := f.mandatory || err == nil && annotated || err != nil && is.GetGeneration() == 1
	changed := false
	if err != nil || annotated != update {
		annotations := is.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(update)
		is.SetAnnotations(annotations)
		changed = true
	}
	return update && f.reviseSpec(is) || changed
}

// reviseSpec corrects the spec, and reports whether it has changed anything. Users may change the shares of the exempt
// level.
//
//upstream:pkg/registry/flowcontrol/ensurer.flowSchemaSpecEqual
//upstream:pkg/registry/flowcontrol/ensurer.plcSpecEqualish
func (f *flowControl) reviseSpec(is kinds.Object) bool {
	switch is := is.(type) {
	case *flowcontrolv1.FlowSchema:
		want := f.object.(*flowcontrolv1.FlowSchema).Spec.DeepCopy()
		if apiequality.Semantic.DeepEqual(*want, is.Spec) {
			return false
		}
		is.Spec = *want
	case *flowcontrolv1.PriorityLevelConfiguration:
		want := f.object.(*flowcontrolv1.PriorityLevelConfiguration).Spec.DeepCopy()
		compared := want.DeepCopy()
		if e := is.Spec.Exempt; e != nil && is.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			compared.Exempt.NominalConcurrencyShares, compared.Exempt.LendablePercent = e.NominalConcurrencyShares, e.LendablePercent
		}
		if apiequality.Semantic.DeepEqual(*compared, is.Spec) {
			return false
		}
		is.Spec = *want
	}
	return true
}
