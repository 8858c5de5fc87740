package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// refuseBinding makes the API server refuse the bindings of a pod until the returned policy is deleted.
func refuseBinding(e controllerstest.Env, pod string) client.Object {
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hold"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "request.name != '" + pod + "'", Message: "not yet"}}}}
	e.CreateAll(policy, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "hold"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "hold", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	e.WaitIdle()
	return policy
}

// TestBindingFails: a pod with a binding that is refused says so, leaves its node to others, and is tried again.
func TestBindingFails(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		policy := refuseBinding(e, "refused")
		e.CreateAll(controllerstest.Pod("refused", "a", requesting("9k")))
		e.WaitIdle()
		const message = `running Bind plugin "DefaultBinder": pods "refused" is forbidden: ValidatingAdmissionPolicy 'hold' with binding 'hold' denied request: not yet`
		e.WantScheduled("refused", "Pending SchedulerError: "+message)
		e.WantEvents("Pod", "refused", "Warning FailedScheduling default-scheduler: "+message)
		e.CreateAll(controllerstest.Pod("other", "a", requesting("9k")))
		e.WaitIdle()
		e.WantScheduled("other", controllerstest.OnFlyball)
		e.Must(e.Delete(e.Context(), e.Pod("other")))
		e.Must(e.Delete(e.Context(), policy))
		e.WaitIdle()
		e.WantScheduled("refused", controllerstest.OnFlyball)
	})
}

// TestBindingConflicts: an error that says that the pod has changed is no reason to wait for an event.
func TestBindingConflicts(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, refusal := range []error{apierrors.NewConflict(pods, "refused", nil), apierrors.NewNotFound(pods, "refused")} {
		var attempts atomic.Int32
		controllerstest.WithController(t, "scheduler", func(controllerstest.Env) interceptor.Funcs {
			return interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
				if attempts.Add(1) == 1 {
					return refusal
				}
				return c.SubResource(sub).Create(ctx, o, body, opts...)
			}}
		}, func(e controllerstest.Env) {
			createNode(e, "n", nil)
			e.CreateAll(controllerstest.Pod("refused", "a"))
			e.WaitIdle()
			e.WantScheduled("refused", `Pending on "n"`)
		})
	}
}

// createNode creates a node that is ready, with 4 CPUs.
func createNode(e controllerstest.Env, name string, labels map[string]string) {
	e.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	e.CreateAll(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")}
	e.Must(e.Status().Update(e.Context(), node))
	node.Spec.Taints = nil
	e.Must(e.Update(e.Context(), node))
}
