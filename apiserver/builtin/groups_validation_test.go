package builtin

import (
	"slices"
	"testing"
)

// TestEndpointSliceAddresses warns about a stored address that new slices may not have, unless a controller manages the slice.
func TestEndpointSliceAddresses(t *testing.T) {
	const slice = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x}, addressType: IPv6, endpoints: [{addresses: ["FD00::1"]}]}`
	for patch, want := range map[string][]string{
		`{}`: {`endpoints[0].addresses[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`},
		`metadata: {labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}`: nil,
	} {
		s := read(t, patched(t, slice, patch))
		if got := describeKindOf(t, s).call("Warnings", s, s)[0].Interface().([]string); !slices.Equal(got, want) {
			t.Errorf("%s: warned %q, want %q", patch, got, want)
		}
	}
}

// TestFixedFlowSchema has an error that quotes a spec, which the recording cannot have: kube-apiserver quotes its internal type.
func TestFixedFlowSchema(t *testing.T) {
	invalidWhen(t, `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: f}, spec: {priorityLevelConfiguration: {name: p}, rules: [{subjects: [{kind: User, user: {name: ann}}], resourceRules: [{verbs: [get], apiGroups: [""], resources: [pods], namespaces: ["*"]}]}]}}`, map[string]change{
		"catch-all": {`metadata: {name: catch-all}`, []string{"spec: Invalid value: …"}},
	})
}
