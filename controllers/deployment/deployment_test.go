package deployment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestReplicaSetsThatAreRefused: a Deployment says that its ReplicaSet cannot be created, and goes on when it
// can.
func TestReplicaSetsThatAreRefused(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: controllerstest.Web.Namespace, Name: "q"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/replicasets.apps": resource.MustParse("0")}}}
		e.CreateAll(quota)
		e.WaitIdle()
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		c := e.Deployment().Status.Conditions
		if len(c) != 1 || c[0].Type != appsv1.DeploymentProgressing || c[0].Status != corev1.ConditionFalse || c[0].Reason != "ReplicaSetCreateError" ||
			!strings.Contains(c[0].Message, "exceeded quota: q") {
			t.Errorf("conditions %v", c)
		}
		e.Must(e.Delete(e.Context(), quota))
		e.WaitIdle()
		e.WaitIdle()
		if d := e.Deployment(); !controllerstest.IsRolledOut(d) || len(d.Status.Conditions) != 2 || d.Status.Conditions[1].Reason != "NewReplicaSetAvailable" {
			t.Errorf("without the quota: %+v", d.Status)
		}
	})
}

// TestScaledInARolloutThatIsRefused scales a Deployment to the size that its old ReplicaSet has during a rollout without a
// surge, while a policy keeps ReplicaSets from growing. The rollout goes on without the policy.
func TestScaledInARolloutThatIsRefused(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "frozen"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"replicasets"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.spec.replicas <= oldObject.spec.replicas"}},
		}}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "frozen"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "frozen", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
		d := controllerstest.Deployment(5, "a")
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1))}
		e.CreateAll(policy, binding, d)
		e.WaitIdle()
		wantSets(e, "1 a 5")
		e.ChangeDeployment(setImage("b"))
		wantSets(e, "1 a 4", "2 b 0")
		e.ChangeDeployment(controllerstest.SetReplicas(4))
		wantSets(e, "1 a 3", "2 b 0") // one of four may be unavailable
		e.Must(e.Delete(e.Context(), binding))
		time.Sleep(time.Minute) // virtual; the update is tried again
		e.WaitIdle()
		wantSets(e, "1 a 0", "2 b 4")
	})
}

// TestScaleDownThatIsRefused: a rollout that cannot scale down its old ReplicaSet is tried again and again, and goes on when that
// is possible. A rolling update reports its progress, and times out. Recreate has no new ReplicaSet yet, so the condition
// Progressing is still the condition of the earlier rollout, which was complete, and never times out.
func TestScaleDownThatIsRefused(t *testing.T) {
	for strategy, reason := range map[appsv1.DeploymentStrategyType]string{
		appsv1.RollingUpdateDeploymentStrategyType: "ProgressDeadlineExceeded",
		appsv1.RecreateDeploymentStrategyType:      "NewReplicaSetAvailable",
	} {
		t.Run(string(strategy), func(t *testing.T) {
			var refused atomic.Int32
			var allow atomic.Bool
			controllerstest.WithController(t, "deployment-controller", func(controllerstest.Env) interceptor.Funcs {
				return interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
						if rs, ok := obj.(*appsv1.ReplicaSet); ok && rs.Spec.Template.Spec.Containers[0].Image == "a" && !allow.Load() {
							refused.Add(1)
							return apierrors.NewForbidden(appsv1.Resource("replicasets"), rs.Name, errors.New("no"))
						}
						return c.Update(ctx, obj, opts...)
					},
				}
			}, func(e controllerstest.Env) {
				d := controllerstest.Deployment(2, "a")
				d.Spec.Strategy.Type = strategy
				e.CreateAll(d)
				e.WaitIdle()
				makeAvailable(e)
				e.ChangeDeployment(setImage("b"))
				makeAvailable(e)
				if s := e.Deployment().Status; strategy == appsv1.RollingUpdateDeploymentStrategyType && s.UpdatedReplicas != 1 {
					t.Errorf("status %+v", s)
				}
				time.Sleep(21 * time.Minute) // virtual; the deadline is ten minutes
				e.WaitIdle()
				progressing := func() appsv1.DeploymentCondition {
					c := e.Deployment().Status.Conditions
					return c[slices.IndexFunc(c, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })]
				}
				if c := progressing(); c.Reason != reason || refused.Load() < 10 {
					t.Errorf("refused %d times: %+v", refused.Load(), c)
				}
				allow.Store(true)
				time.Sleep(17 * time.Minute) // virtual; the longest delay of a retry
				e.WaitIdle()
				for range 3 {
					makeAvailable(e)
				}
				wantSets(e, "1 a 0", "2 b 2")
				if d, c := e.Deployment(), progressing(); !controllerstest.IsRolledOut(d) || c.Reason != "NewReplicaSetAvailable" {
					t.Errorf("status %+v", d.Status)
				}
			})
		})
	}
}

// makeAvailable gives all ReplicaSets the status as if their replicas were available, and waits until the controllers are idle.
func makeAvailable(e controllerstest.Env) {
	e.Helper()
	list := &appsv1.ReplicaSetList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
	for i := range list.Items {
		rs := &list.Items[i]
		n := *rs.Spec.Replicas
		rs.Status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Replicas: n, FullyLabeledReplicas: n, ReadyReplicas: n,
			AvailableReplicas: n}
		e.Must(e.Status().Update(e.Context(), rs))
	}
	e.WaitIdle()
}

// TestDeploymentOfTheSameName replaces a Deployment by another of the same name just before the
// controller writes the revision of the old one, which must not reach the new one.
func TestDeploymentOfTheSameName(t *testing.T) {
	var responses []error
	controllerstest.WithController(t, "deployment-controller", func(e controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object,
				opts ...client.SubResourceUpdateOption) error {
				if _, ok := obj.(*appsv1.Deployment); ok && responses == nil {
					e.Must(e.Delete(ctx, controllerstest.Deployment(3, "a"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
					e.CreateAll(controllerstest.Deployment(3, "b"))
				}
				err := c.SubResource(name).Update(ctx, obj, opts...)
				responses = append(responses, err)
				return err
			},
		}
	}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		if len(responses) < 2 || !apierrors.IsConflict(responses[0]) || responses[len(responses)-1] != nil {
			t.Errorf("the responses were %v", responses)
		}
		wantSets(e, "1 a 3", "1 b 3")
	})
}

// describeSets returns the revision, image and replicas of each ReplicaSet, sorted by revision.
func describeSets(e controllerstest.Env) []string {
	e.Helper()
	list := &appsv1.ReplicaSetList{}
	e.Must(e.List(e.Context(), list, client.InNamespace(controllerstest.Web.Namespace)))
	var described []string
	for _, rs := range list.Items {
		described = append(described, fmt.Sprint(rs.Annotations["deployment.kubernetes.io/revision"], " ", rs.Spec.Template.Spec.Containers[0].Image, " ", *rs.Spec.Replicas))
	}
	slices.Sort(described)
	return described
}

func wantSets(e controllerstest.Env, described ...string) {
	e.Helper()
	if got := describeSets(e); !slices.Equal(got, described) {
		e.Errorf("the sets are %q, want %q", got, described)
	}
}

func setImage(image string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image }
}

func TestDeploymentLifecycle(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Deployment(3, "a"))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")
		wantSets(e, "1 a 3")
		if d := e.Deployment(); !controllerstest.IsRolledOut(d) || d.Annotations["deployment.kubernetes.io/revision"] != "1" || d.Generation != 1 {
			t.Errorf("generation %d, status %+v, annotations %v", d.Generation, d.Status, d.Annotations)
		}

		if d := e.ChangeDeployment(setImage("b")); !controllerstest.IsRolledOut(d) {
			t.Errorf("status %+v", d.Status)
		}
		e.WantPods("b ready", "b ready", "b ready")
		wantSets(e, "1 a 0", "2 b 3")

		e.ChangeDeployment(controllerstest.SetReplicas(1))
		e.WantPods("b ready")

		e.ChangeDeployment(setImage("a")) // back
		e.WantPods("a ready")
		wantSets(e, "2 b 0", "3 a 1")

		e.ChangeDeployment(func(d *appsv1.Deployment) { d.Spec.Paused = true; setImage("c")(d) })
		e.WantPods("a ready")
		e.ChangeDeployment(func(d *appsv1.Deployment) { d.Spec.Paused = false })
		e.WantPods("c ready")

		limit := int32(0)
		e.ChangeDeployment(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &limit })
		wantSets(e, "4 c 1")

		e.Must(e.Delete(e.Context(), e.Deployment()))
		e.WaitIdle()
		e.WantPods()
		wantSets(e)
	})
}

func TestRecreate(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		d := controllerstest.Deployment(2, "a")
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		e.CreateAll(d)
		e.WaitIdle()
		e.ChangeDeployment(setImage("b"))
		e.WantPods("b ready", "b ready")
	})
}

func TestStuckRollout(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Deployment(4, "a"))
		e.WaitIdle()
		e.ChangeDeployment(func(d *appsv1.Deployment) {
			setImage("b")(d)
			d.Spec.Template.Annotations = map[string]string{pods.OutcomeAnnotation: pods.NeverReady}
		})
		e.WantPods("a ready", "a ready", "a ready", "b", "b")
		time.Sleep(11 * time.Minute) // virtual
		e.WaitIdle()
		if !slices.ContainsFunc(e.Deployment().Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
		}) {
			t.Errorf("conditions %+v", e.Deployment().Status.Conditions)
		}
	})
}

func TestMinReadySeconds(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{Pods: pods.Options{Delay: 3 * time.Second}}, func(e controllerstest.Env) {
		d := controllerstest.Deployment(1, "a")
		d.Spec.MinReadySeconds = 60
		e.CreateAll(d)
		e.WaitIdle() // 10 seconds: ready after 3
		if s := e.Deployment().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute) // virtual
		e.WaitIdle()
		if s := e.Deployment().Status; s.AvailableReplicas != 1 {
			t.Errorf("status %+v", s)
		}
	})
}
