package builtin

import "testing"

func TestValidatingPolicyValidation(t *testing.T) {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  variables: [{name: count, expression: object.spec.replicas}]
  validations: [{expression: variables.count < 5, messageExpression: "'has ' + string(variables.count)", reason: Invalid}]
`
	invalidWhen(t, policy, map[string]change{
		"nothing": {`spec: {validations: null}`, []string{
			"spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
			"spec.validations: Required value: validations or auditAnnotations must contain at least one item"}},
		"syntax":     {`spec: {validations: [{expression: "1 +"}]}`, []string{`spec.validations[0].expression: Invalid value: "1 +": compilation failed: ERROR: …`}},
		"type":       {`spec: {validations: [{expression: "'a'"}]}`, []string{`spec.validations[0].expression: Invalid value: "'a'": must evaluate to bool…`}},
		"unknown":    {`spec: {validations: [{expression: params.x}]}`, []string{`spec.validations[0].expression: Invalid value: "params.x": compilation failed: ERROR: …`}},
		"params":     {`spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params.data.x == 'y'"}]}`, nil},
		"param kind": {`spec: {paramKind: {apiVersion: a/b/c, kind: ""}}`, []string{`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, "spec.paramKind.kind: Required value"}},
		"message":    {`spec: {validations: [{expression: "true", message: "a\nb"}]}`, []string{`spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks`}},
		"reason":     {`spec: {validations: [{expression: "true", reason: Sure}]}`, []string{`spec.validations[0].reason: Unsupported value: "Sure": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`}},
		"variable":   {`spec: {variables: [{name: for, expression: ""}], validations: [{expression: "true"}]}`, []string{"spec.variables[0].expression: Required value: expression is not specified", `spec.variables[0].name: Invalid value: "for": must be a valid CEL identifier`}},
		"match":      {`spec: {matchConstraints: {matchPolicy: Sometimes, resourceRules: []}}`, []string{`spec.matchConstraints.matchPolicy: Unsupported value: "Sometimes": supported values: "Equivalent", "Exact"`, "spec.matchConstraints.resourceRules: Required value"}},
		"conditions": {`spec: {matchConditions: [{name: a, expression: "true"}, {name: a, expression: " "}]}`, []string{"spec.matchConditions[1].expression: Required value", `spec.matchConditions[1].name: Duplicate value: "a"`}},
		"audit":      {`spec: {auditAnnotations: [{key: k, valueExpression: "1"}]}`, []string{`spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type]…`}},
		"resources":  {`spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: ["*", pods]}]}}`, []string{`spec.matchConstraints.resourceRules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources`}},
	})
	invalidWhen(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]}}`, map[string]change{
		"policy":  {`spec: {policyName: ""}`, []string{"spec.policyName: Required value"}},
		"actions": {`spec: {validationActions: [Deny, Warn, Shout]}`, []string{`spec.validationActions: Invalid value: ["Deny","Warn","Shout"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`, `spec.validationActions[2]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"`}},
		"none":    {`spec: {validationActions: null}`, []string{"spec.validationActions: Required value"}},
		"params": {`spec: {paramRef: {name: a, selector: {}}}`, []string{"spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
			"spec.paramRef.parameterNotFoundAction: Required value", "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive"}},
	})
}

func TestMutatingPolicyValidation(t *testing.T) {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]
`
	invalidWhen(t, policy, map[string]change{
		"json patch": {`spec: {mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}]'}}]}`, nil},
		"type":       {`spec: {mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[1]'}}]}`, []string{`spec.mutations[0].jsonPatch.expression: Invalid value: "[1]": must evaluate to list(JSONPatch)…`}},
		"other":      {`spec: {mutations: [{patchType: JSONPatch}]}`, []string{"spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"}},
		"none":       {`spec: {mutations: null, reinvocationPolicy: ""}`, []string{"spec.mutations: Required value: mutations must contain at least one item", "spec.reinvocationPolicy: Required value"}},
		"delete": {`spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}}`,
			[]string{`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`}},
	})
	invalidWhen(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p}}`, map[string]change{
		"policy": {`spec: {policyName: A}`, []string{`spec.policyName: Invalid value: "A": a lowercase RFC 1123 subdomain …`}},
	})
}
