package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// create returns the step that creates an object, and sets its status when the controller has seen the object.
func create(obj client.Object) step {
	return step{text: fmt.Sprintf("create %T %s %s", obj, obj.GetName(), jsonOf(obj)), do: func(ctx context.Context, c client.Client) error {
		o := obj.DeepCopyObject().(client.Object)
		if err := c.Create(ctx, o); err != nil {
			return err
		}
		synctest.Wait()
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		status := reflect.ValueOf(obj).Elem().FieldByName("Status")
		if !status.IsValid() {
			return nil
		}
		reflect.ValueOf(o).Elem().FieldByName("Status").Set(reflect.ValueOf(obj.DeepCopyObject()).Elem().FieldByName("Status"))
		return c.Status().Update(ctx, o)
	}}
}

// change returns the step that changes an object.
func change[T client.Object](text string, obj T, with func(T)) step {
	return step{text: fmt.Sprintf("change %T %s: %s", obj, obj.GetName(), text), do: func(ctx context.Context, c client.Client) error {
		o := obj.DeepCopyObject().(T)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), o); err != nil {
			return err
		}
		with(o)
		return c.Update(ctx, o)
	}}
}

// changeStatus returns the step that changes the status of an object.
func changeStatus[T client.Object](text string, obj T, with func(T)) step {
	return step{text: fmt.Sprintf("change the status of %T %s: %s", obj, obj.GetName(), text), do: func(ctx context.Context, c client.Client) error {
		o := obj.DeepCopyObject().(T)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), o); err != nil {
			return err
		}
		with(o)
		return c.Status().Update(ctx, o)
	}}
}

// remove returns the step that deletes an object.
func remove(obj client.Object, opts ...client.DeleteOption) step {
	return step{text: fmt.Sprintf("delete %T %s", obj, obj.GetName()), do: func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, obj.DeepCopyObject().(client.Object), opts...)
	}}
}

// kill returns the step that deletes a pod as kubelet does, if the pod is terminating.
func kill(obj client.Object) step {
	s := remove(obj, client.GracePeriodSeconds(0))
	s.text = fmt.Sprintf("kubelet ends %s", obj.GetName())
	return s
}

// newNode returns a node that is ready or not.
func newNode(name string, ready bool, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{Taints: taints}}
	setReady(n, ready)
	return n
}

// setReady sets the condition Ready of a node.
func setReady(n *corev1.Node, ready bool) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	if ready {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	}
}

// newPod returns a pod on a node, or on none if that is "".
func newPod(s *random.Source, name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{NodeName: node,
		Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: ptr.To(random.Pick[int64](s, 30, 30, 0, 5))}}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if s.Chance(15) {
		p.Finalizers = []string{"example.com/f"}
	}
	return p
}

// after returns a step with a time to wait.
func after(s step, wait time.Duration) step {
	s.wait = wait
	return s
}

// jsonOf returns a value as JSON.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
