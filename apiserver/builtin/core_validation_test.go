package builtin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/core"
)

// TestConfigMapSize has data that a recording has no room for.
func TestConfigMapSize(t *testing.T) {
	invalidWhen(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {key: value}}`, map[string]change{
		"too large": {`data: {big: "` + strings.Repeat("x", 1<<20) + `"}`, []string{`[]: Too long: may not be more than 1048576 bytes`}},
	})
}

func TestNamespaces(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: Namespace, metadata: {name: team}, spec: {finalizers: [kubernetes]}}`

	ns := read(t, manifest).(*corev1.Namespace)
	if !core.TerminateNamespace(ns) || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the first deletion leaves the phase %s", ns.Status.Phase)
	}
}
