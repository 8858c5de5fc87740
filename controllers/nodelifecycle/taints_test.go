package nodelifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEvictingTaint: taints as KEY@SECOND, the taint that evicts the pods at the second 9, and the taints that follow.
func TestEvictingTaint(t *testing.T) {
	const lost, bad = corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady
	for _, tt := range []struct{ taints, key, want string }{
		{"", "", ""},
		{"", lost, lost},
		{"mine@1", lost, "mine@1 " + lost},
		{lost + "@1", lost, lost + "@1"},
		{lost + "@1", "", ""},
		{lost, lost, lost},
		{bad + "@1 mine", lost, "mine " + lost + "@9"},
		{bad + "@1 " + lost + "@2", lost, lost + "@9"},
		{bad + " " + lost, bad, bad + "@9"},
		{bad + "@1 " + lost + "@2 mine@3", "", "mine@3"},
	} {
		var taints []corev1.Taint
		for word := range strings.FieldsSeq(tt.taints) {
			key, second, ok := strings.Cut(word, "@")
			taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
			if ok {
				taint.TimeAdded = &metav1.Time{Time: time.Unix(int64(second[0]-'0'), 0)}
			}
			taints = append(taints, taint)
		}
		var got []string
		for _, taint := range setEvictingTaint(taints, tt.key, time.Unix(9, 0)) {
			text := taint.Key
			if taint.TimeAdded != nil {
				text += fmt.Sprint("@", taint.TimeAdded.Unix())
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q with the taint %q: %q, want %q", tt.taints, tt.key, got, tt.want)
		}
	}
}
