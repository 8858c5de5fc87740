package core

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/kinds"
)

// Binder binds pods to nodes. Pods set it up, and Bindings use it.
type Binder struct{ binding *bindingREST }

// Bindings describes the kind Binding at the legacy path bindings, which does the same as
// pods/NAME/binding.
//
//upstream:pkg/registry/core/pod/storage.LegacyBindingREST
func Bindings(binder *Binder) kinds.Kind {
	return kinds.Action[*corev1.Binding]{
		Type: &corev1.Binding{}, Plural: "bindings", Namespaced: true,
		Create: func(ctx context.Context, b *corev1.Binding, validate rest.ValidateObjectFunc,
			options *metav1.CreateOptions) (runtime.Object, error) {
			return binder.binding.Create(ofPods(ctx), b.Name, b, validate, options)
		},
	}
}

// podSubresources returns a constructor of the subresources of pods, except for status and podParts.
func podSubresources(budgets *Budgets, binder *Binder, access authorizer.UnconditionalAuthorizer, c *Connections) func(kinds.Stored[*corev1.Pod]) map[string]rest.Storage {
	return func(s kinds.Stored[*corev1.Pod]) map[string]rest.Storage {
		binder.binding = &bindingREST{s}
		all := podConnections(s, access, c)
		all["binding"], all["eviction"] = binder.binding, &evictionREST{s, budgets}
		return all
	}
}

// ofPods returns the context of a request for pods/binding, so that errors name pods.
func ofPods(ctx context.Context) context.Context {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return ctx
	}
	pods := *info
	pods.Resource, pods.Subresource = "pods", "binding"
	return request.WithRequestInfo(ctx, &pods)
}

// podBindings is the resource in the errors of a binding.
//
//upstream:pkg/registry/core/pod/storage.BindingREST.assignPod
var podBindings = corev1.Resource("pods/binding")

// bindingREST is the subresource pods/binding, which sets the node of a pod.
//
//upstream:pkg/registry/core/pod/storage.BindingREST
type bindingREST struct{ pods kinds.Stored[*corev1.Pod] }

var (
	_ rest.NamedCreater                   = (*bindingREST)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*bindingREST)(nil)
)

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the UID and the resource version of a
// Binding, which are preconditions on the pod.
//
//upstream:pkg/registry/core/pod/storage.BindingREST.PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate
func (r *bindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

func (r *bindingREST) New() runtime.Object { return &corev1.Binding{} }
func (r *bindingREST) Destroy()            {}

// Create binds the pod to a node. It returns an error if the pod has a node, is being deleted, or has
// scheduling gates.
//
//upstream:pkg/registry/core/pod/storage.BindingREST.Create
//upstream:pkg/registry/core/pod/storage.BindingREST.assignPod
func (r *bindingREST) Create(ctx context.Context, name string, obj runtime.Object,
	validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	binding, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("not a Binding object: %#v", obj))
	}
	if binding.Name != name {
		return nil, errors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		return nil, errors.NewInvalid(schema.GroupKind{Kind: "Binding"}, name, errs)
	}
	if validate != nil {
		if err := validate(ctx, binding.DeepCopy()); err != nil {
			return nil, err
		}
	}
	_, err := r.pods.Update(ctx, name, options.DryRun, func(p *corev1.Pod) error {
		if err := bindable(p, binding); err != nil {
			return errors.NewConflict(podBindings, name, err)
		}
		bind(p, binding)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}

// validateBinding checks the target of a Binding.
//
//upstream:pkg/apis/core/validation.ValidatePodBinding
func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if k := b.Target.Kind; k != "" && k != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), k, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs
}

// bindable returns an error if the pod cannot be bound.
//
//upstream:pkg/registry/core/pod/storage.BindingREST.setPodNodeAndMetadata
//upstream:k8s.io/apiserver/pkg/storage.Preconditions.Check
func bindable(p *corev1.Pod, b *corev1.Binding) error {
	switch {
	case b.UID != "" && b.UID != p.UID:
		//lint:ignore ST1005 clients know this text of kube-apiserver
		return fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, p.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != p.ResourceVersion:
		//lint:ignore ST1005 clients know this text of kube-apiserver
		return fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			b.ResourceVersion, p.ResourceVersion)
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	return nil
}

// bind sets the node of the pod, and copies the annotations and the labels of the Binding.
//
//upstream:pkg/registry/core/pod/storage.BindingREST.setPodNodeAndMetadata
//upstream:pkg/registry/core/pod/storage.copyLabelsWithOverwriting
func bind(p *corev1.Pod, b *corev1.Binding) {
	p.Spec.NodeName = b.Target.Name
	if len(b.Annotations) > 0 && p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	maps.Copy(p.Annotations, b.Annotations)
	if len(b.Labels) > 0 && p.Labels == nil {
		p.Labels = map[string]string{}
	}
	maps.Copy(p.Labels, b.Labels)
	p.Status.NominatedNodeName = ""
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now()}
	if c := podCondition(p, corev1.PodScheduled); c != nil {
		*c = scheduled
	} else {
		p.Status.Conditions = append(p.Status.Conditions, scheduled)
	}
}
