package exampletest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// start starts an operator on a control plane of its own, with the namespace of the tours. Both stop
// when the test ends.
func start(t *testing.T, e *example.Example) *example.World {
	t.Helper()
	plane, err := controlplane.Start(context.WithoutCancel(t.Context()), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	w, err := example.NewWorld(t.Context(), e, plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: example.Namespace}}
	if err := w.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// WriteDenied runs the operator while an admission policy denies writes of a resource, and checks that
// the condition of the last object says so, for its generation, and that the operator recovers by
// itself when they are allowed again. The other objects are created before.
func WriteDenied(t *testing.T, e *example.Example, resource, condition, reason string, objects ...client.Object) {
	t.Helper()
	w := start(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	obj := objects[len(objects)-1]
	for _, o := range objects[:len(objects)-1] {
		if err := w.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	policy, binding := denying(resource)
	for _, o := range []client.Object{policy, binding, obj} {
		if err := w.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	denied := func(o client.Object) bool {
		c, err := conditionOf(o, condition)
		return err == nil && c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason &&
			c.ObservedGeneration == o.GetGeneration()
	}
	if err := await.Object(ctx, w.Client, obj, func(o client.Object) string {
		if !denied(o) {
			return fmt.Sprintf("the condition %s does not have the reason %s: %+v", condition, reason, o)
		}
		return ""
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Delete(ctx, binding); err != nil {
		t.Fatal(err)
	}
	if err := await.Object(ctx, w.Client, obj, func(o client.Object) string {
		if denied(o) {
			return fmt.Sprintf("the condition %s still has the reason %s", condition, reason)
		}
		return ""
	}); err != nil {
		t.Fatal(err)
	}
}

// denying returns a policy that denies all writes of a resource, and its binding.
func denying(resource string) (policy, binding client.Object) {
	name := metav1.ObjectMeta{Name: "deny-" + resource}
	rule := admissionregistrationv1.NamedRuleWithOperations{}
	rule.APIGroups, rule.APIVersions, rule.Resources = []string{"*"}, []string{"*"}, []string{resource}
	rule.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: name,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule},
				},
				Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "denied by a test"}},
			},
		}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: name,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        name.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}
}

// NameTaken creates an object of somebody else's, and then one with a dependent of the same name. It
// checks that the condition says so, for the present generation, and that the object of somebody else
// is left alone. Then it frees the name, and checks that the operator takes it within some minutes, of
// virtual time. So the example must not use the network.
func NameTaken(t *testing.T, e *example.Example, condition string, taken, obj client.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, e)
		for _, o := range []client.Object{taken, obj} {
			if err := w.Client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		after := func(d time.Duration, o client.Object) client.Object {
			time.Sleep(d)
			synctest.Wait()
			now := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil {
				t.Fatal(err)
			}
			return now
		}
		now := after(time.Second, obj)
		c, err := conditionOf(now, condition)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NameTaken" || c.ObservedGeneration != now.GetGeneration() {
			t.Fatalf("the condition %s is %+v", condition, c)
		}
		theirs := after(0, taken)
		if theirs.GetUID() != taken.GetUID() || len(theirs.GetOwnerReferences()) > 0 {
			t.Fatalf("the object of somebody else was changed: %v", theirs)
		}
		if err := w.Client.Delete(t.Context(), taken, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		now = after(10*time.Minute, obj)
		if c, err = conditionOf(now, condition); err != nil || c == nil || c.Reason == "NameTaken" {
			t.Errorf("the name is free, and the condition %s is %+v, %v", condition, c, err)
		}
		if ours := after(0, taken); !metav1.IsControlledBy(ours, obj) {
			t.Errorf("the owners are %v", ours.GetOwnerReferences())
		}
	})
}

// conditionOf returns a condition of an object, or nil if it has none of that type.
func conditionOf(obj client.Object, conditionType string) (*metav1.Condition, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	conditions, _, err := unstructured.NestedSlice(content, "status", "conditions")
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		condition := &metav1.Condition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.(map[string]any), condition); err != nil {
			return nil, err
		}
		if condition.Type == conditionType {
			return condition, nil
		}
	}
	return nil, nil
}
