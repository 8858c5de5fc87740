package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/apiserver/admission/stored"
)

// priority sets a pod's priority to the value of its class, or of the default class, and allows at most
// one default class.
//
//upstream:plugin/pkg/admission/priority.Plugin
type priority struct {
	*admission.Handler
	classes *stored.Reader[*schedulingv1.PriorityClass]
}

var (
	_ admission.MutationInterface   = (*priority)(nil)
	_ admission.ValidationInterface = (*priority)(nil)
)

func newPriority(o Environment) admission.Interface {
	return &priority{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		classes: stored.NewReader[*schedulingv1.PriorityClass](o, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")),
	}
}

// Admit sets the priority and the preemption policy of new pods, and refuses other values of them.
func (p *priority) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	if old, ok := a.GetOldObject().(*corev1.Pod); ok && a.GetOperation() == admission.Update {
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
		return nil
	}
	class, err := p.classOf(ctx, a, pod)
	if err != nil {
		return err
	}
	if set := pod.Spec.Priority; set != nil && *set != class.Value {
		return admission.NewForbidden(a,
			fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
				"priority admission controller computed %d from the given PriorityClass name",
				*set, class.Value))
	}
	if set := pod.Spec.PreemptionPolicy; set != nil && class.PreemptionPolicy != nil && *set != *class.PreemptionPolicy {
		return admission.NewForbidden(a,
			fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
				"priority admission controller computed %s from the given PriorityClass name",
				*set, *class.PreemptionPolicy))
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, new(class.Value)
	if class.PreemptionPolicy != nil {
		pod.Spec.PreemptionPolicy = new(*class.PreemptionPolicy)
	}
	return nil
}

// classOf returns the class that the pod names, or else the default class. The caller must not change it.
func (p *priority) classOf(ctx context.Context, a admission.Attributes,
	pod *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	if name := pod.Spec.PriorityClassName; name != "" {
		class, err := p.classes.Get(ctx, "", name)
		if errors.IsNotFound(err) {
			return nil, admission.NewForbidden(a, fmt.Errorf("no PriorityClass with name %s was found", name))
		}
		return class, err
	}
	class, err := p.globalDefault(ctx)
	if class == nil {
		class = noClass
	}
	return class, err
}

// noClass is the class of pods that name none if there is no default class.
var noClass = &schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptLowerPriority)}

// globalDefault returns the default class or nil. If concurrent writes have created two, it returns the one with the
// lower value. The caller must not change it.
func (p *priority) globalDefault(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	const isDefault = "" // which is no name
	return p.classes.Cached(types.NamespacedName{Name: isDefault}, func() (found *schedulingv1.PriorityClass, err error) {
		err = p.classes.Each(ctx, "", func(c *schedulingv1.PriorityClass) {
			if c.GlobalDefault && (found == nil || c.Value < found.Value) {
				found = c
			}
		})
		return found, err
	})
}

func (p *priority) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	class, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	other, err := p.globalDefault(ctx)
	if err != nil || other == nil || a.GetOperation() == admission.Update && other.Name == class.Name {
		return err
	}
	return admission.NewForbidden(a,
		fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", other.Name))
}
