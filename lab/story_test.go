package lab

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/reconcile"
)

// TestCauses: the story of a finding says for each write what woke the reconcile.
func TestCauses(t *testing.T) {
	e := learned(t, copier(ignore), copied())
	schedule := append(Schedule{{Do: ServerError, At: twoSecrets[0].At}}, twoSecrets...)
	schedule[1].At.N = 2
	r := e.run(schedule, clean{})
	if r.finding == nil {
		t.Fatal("nothing was found")
	}
	rest := r.finding.Story
	for _, want := range []string{
		"operator create secrets default/web-*   ⚡ server error\n" + strings.Repeat(" ", 15) + "because created ConfigMap default/web\n",
		"operator create secrets default/web-*   ⚡ crash after\n" + strings.Repeat(" ", 15) + "because retry\n",
		"operator create secrets default/web-*\n" + strings.Repeat(" ", 15) + "because listed ConfigMap default/web\n",
		"operator update configmaps default/web\n" + strings.Repeat(" ", 15) + "because listed ConfigMap default/web\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the story lacks %q after what comes before it:\n%s", want, r.finding.Story)
		}
		rest = after
	}
}

// TestCausesText: causes have canonical names, and neither a resource version nor fields.
func TestCausesText(t *testing.T) {
	w := &world{names: newNames()}
	w.names.generated("secrets", "default", "web-", "web-x7k2p")
	causes := reconcile.Causes{List: []reconcile.Cause{
		{Kind: reconcile.CauseUpdated, Object: types.NamespacedName{Namespace: "default", Name: "web-x7k2p"}, ResourceVersion: "17", Changed: "data"},
		{Kind: reconcile.CauseRequeueAfter},
	}}
	if got, want := w.causesText(causes), "updated default/web-*1, requeue-after"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.causesText(reconcile.Causes{}); got != "" {
		t.Errorf("without causes: %q", got)
	}
}
