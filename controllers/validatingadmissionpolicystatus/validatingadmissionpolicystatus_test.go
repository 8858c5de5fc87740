package validatingadmissionpolicystatus_test

import (
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestValidatingAdmissionPolicyStatus checks that warnings about a policy's expressions follow its current spec.
func TestValidatingAdmissionPolicyStatus(t *testing.T) {
	var o controllers.Options
	if err := o.Select("validatingadmissionpolicy-status-controller"); err != nil {
		t.Fatal(err)
	}
	controllerstest.InVirtualTime(t, o, func(e controllerstest.Env) {
		policy := &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "replicas"},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule: admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
				}}},
				Validations: []admissionv1.Validation{
					{Expression: "object.spec.replicas < 5", MessageExpression: "'there are ' + string(object.spec.replicants)"},
					{Expression: "object.spec.replicas > 'a'"},
				},
			},
		}
		if err := e.Create(e.Context(), policy); err != nil {
			e.Fatal(err)
		}
		read := func() []admissionv1.ExpressionWarning {
			e.Helper()
			synctest.Wait()
			if err := e.Get(e.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
				e.Fatal(err)
			}
			if policy.Status.ObservedGeneration != policy.Generation {
				e.Fatalf("generation %d has the status %+v", policy.Generation, policy.Status)
			}
			if policy.Status.TypeChecking == nil {
				return nil
			}
			return policy.Status.TypeChecking.ExpressionWarnings
		}
		warnings := read()
		if len(warnings) != 2 || warnings[0].FieldRef != "spec.validations[0].messageExpression" ||
			!strings.Contains(warnings[0].Warning, "apps/v1, Kind=Deployment: ERROR: <input>:1:") ||
			!strings.Contains(warnings[0].Warning, "undefined field 'replicants'") ||
			warnings[1].FieldRef != "spec.validations[1].expression" || !strings.Contains(warnings[1].Warning, "found no matching overload for '_>_'") {
			e.Errorf("got %+v", warnings)
		}
		policy.Spec.Validations = []admissionv1.Validation{{Expression: "object.spec.replicas < 5"}}
		if err := e.Update(e.Context(), policy); err != nil {
			e.Fatal(err)
		}
		if warnings := read(); len(warnings) != 0 || policy.Generation != 2 {
			e.Errorf("generation %d has %+v", policy.Generation, warnings)
		}
		policy.Labels = map[string]string{"a": "b"}
		if err := e.Update(e.Context(), policy); err != nil {
			e.Fatal(err)
		}
		version := policy.ResourceVersion
		if read(); policy.ResourceVersion != version {
			e.Error("a change of the metadata was checked")
		}
		policy.ObjectMeta = metav1.ObjectMeta{Name: "valid"}
		if err := e.Create(e.Context(), policy); err != nil {
			e.Fatal(err)
		}
		if warnings := read(); len(warnings) != 0 || policy.Status.TypeChecking == nil {
			e.Errorf("a valid policy has the status %+v", policy.Status)
		}
	})
}
