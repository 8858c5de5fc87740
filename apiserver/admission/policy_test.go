package admission_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"flyball.dev/controlplane/controlplanetest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
)

var policyResources = map[string]string{
	"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}

// createPolicies creates policies and bindings.
func createPolicies(t *testing.T, client dynamic.Interface, manifests ...string) {
	t.Helper()
	for _, text := range manifests {
		obj := controlplanetest.Decode(t, text)
		resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: policyResources[obj.GetKind()]}
		if _, err := client.Resource(resource).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", obj.GetName(), err)
		}
	}
}

const replicasPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  matchConditions: [{name: not-exempt, expression: "!(has(object.metadata.labels) && 'exempt' in object.metadata.labels)"}]
  variables: [{name: most, expression: "int(params.data.most)"}]
  validations:
  - expression: "object.spec.replicas <= variables.most"
    messageExpression: "'at most ' + string(variables.most) + ' replicas'"
    reason: Invalid
`

const replicasBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec:
  policyName: replicas
  paramRef: {name: limits, parameterNotFoundAction: Deny}
  validationActions: [Deny]
`

func TestValidatingAdmissionPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config()
		var seen controlplanetest.Warnings
		cfg.WarningHandler = &seen
		client := controlplanetest.ClientFor(t, cfg)
		custom, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		widgetResource := custom.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
		create := func(name string, labels map[string]string) error {
			w := controlplanetest.Decode(t, controlplanetest.ExampleWidget) // has 3 replicas
			w.SetName(name)
			w.SetLabels(labels)
			_, err := widgetResource.Create(ctx, w, metav1.CreateOptions{})
			return err
		}
		refused := func(err error, want string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		createPolicies(t, custom, replicasPolicy, replicasBinding)
		crds := custom.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if _, err := crds.Create(ctx, controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		refused(create("a", nil), "ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
		limits := controlplanetest.ConfigMap("limits")
		limits.Data = map[string]string{"most": "2"}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, limits, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = create("a", nil)
		refused(err, `widgets.example.com "a" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: at most 2 replicas`)
		if !apierrors.IsInvalid(err) {
			t.Errorf("the reason is %s", apierrors.ReasonForError(err))
		}
		if err := create("exempt", map[string]string{"exempt": ""}); err != nil {
			t.Error(err)
		}
		limits.Data["most"] = "3"
		if _, err := client.CoreV1().ConfigMaps("default").Update(ctx, limits, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := create("a", nil); err != nil {
			t.Errorf("after the parameter has changed: %v", err)
		}
		createPolicies(t, custom, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: everything}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  validations: [{expression: "false", message: never}]
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: warn}
spec: {policyName: everything, validationActions: [Warn]}
`)
		if err := create("warned", nil); err != nil {
			t.Error(err)
		}
		if got := seen.Take(); !slices.Contains(got, "Validation failed for ValidatingAdmissionPolicy 'everything' with binding 'warn': never") {
			t.Errorf("warnings: %q", got)
		}
		createPolicies(t, custom, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny}
spec: {policyName: everything, validationActions: [Deny]}
`)
		refused(create("refused", nil), "denied request: never")
		refused(widgetResource.Delete(ctx, "a", metav1.DeleteOptions{}), "denied request: never")
		// A policy for everything does not apply to policies, so that it can be removed.
		if err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "deny", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := create("again", nil); err != nil {
			t.Error(err)
		}
	})
}

func TestMutatingAdmissionPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config()
		client := controlplanetest.ClientFor(t, cfg)
		custom, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		crds := custom.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if _, err := crds.Create(ctx, controlplanetest.Decode(t, controlplanetest.Widgets), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		createPolicies(t, custom, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: sidecar}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{spec: Object.spec{containers: [Object.spec.containers{name: "sidecar", image: "proxy:1"}]}}'
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/metadata/annotations", value: {"mutated": "yes"}}]'
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: sidecar}
spec: {policyName: sidecar}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ports}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: 7}}'}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ports}
spec: {policyName: ports}
`)
		p, err := client.CoreV1().Pods("default").Create(ctx, controlplanetest.ExamplePod(1), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Spec.Containers) != 2 || p.Spec.Containers[1].Image != "proxy:1" || p.Annotations["mutated"] != "yes" {
			t.Errorf("%+v", p)
		}
		w := controlplanetest.Decode(t, controlplanetest.ExampleWidget)
		w.SetName("w")
		w, err = custom.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default").Create(ctx, w, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Object["spec"].(map[string]any)["replicas"]; got != int64(7) {
			t.Errorf("replicas: %v", got)
		}
	})
}
