package claim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestClassify(t *testing.T) {
	yes := true
	deletedAt := &metav1.Time{Time: time.Unix(1, 0)}
	pod := func(name, label string, owner types.UID, deleted *metav1.Time) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": label}, DeletionTimestamp: deleted}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: &yes}}
		}
		return p
	}
	pods := []*corev1.Pod{
		pod("owned", "web", "me", nil), pod("owned-deleted", "web", "me", deletedAt), pod("orphan", "web", "", nil), pod("orphan-deleted", "web", "", deletedAt),
		pod("nonmatching", "other", "me", nil), pod("nonmatching-deleted", "other", "me", deletedAt), pod("others", "web", "them", nil), pod("unrelated", "other", "", nil),
	}
	names := func(pods []*corev1.Pod) (list []string) {
		for _, p := range pods {
			list = append(list, p.Name)
		}
		return list
	}
	for _, tt := range []struct {
		name                  string
		deleted               *metav1.Time
		owned, adopt, release []string
	}{
		{"not deleted", nil, []string{"owned", "owned-deleted"}, []string{"orphan"}, []string{"nonmatching", "nonmatching-deleted"}},
		{"being deleted", deletedAt, []string{"owned", "owned-deleted"}, nil, nil},
	} {
		owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "me", DeletionTimestamp: tt.deleted}}
		s := Classify(owner, labels.SelectorFromSet(labels.Set{"app": "web"}), pods)
		if d := cmp.Diff([][]string{tt.owned, tt.adopt, tt.release}, [][]string{names(s.Owned), names(s.Adopt), names(s.Release)}); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}
