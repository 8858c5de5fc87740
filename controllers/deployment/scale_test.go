package deployment

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestScale compares the sizes of ReplicaSets after a change of the Deployment's replicas with recorded
// results of kube-controller-manager.
func TestScale(t *testing.T) {
	text, err := os.ReadFile("testdata/scale.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cases++
		columns := strings.Split(strings.TrimSpace(line), " | ")
		s, sets := scaleCase(t, columns[0], columns[1])
		s.scaleProportionally(active(sets))
		var got []string
		for _, rs := range sets {
			if c := s.changed[rs]; c != nil {
				rs = c
			}
			got = append(got, fmt.Sprint(replicas(rs)))
		}
		if strings.Join(got, " ") != columns[2] {
			t.Errorf("%s: got %v", line, got)
		}
	}
	if cases < 200 {
		t.Errorf("only %d cases", cases)
	}
}

// scaleCase returns the rollout, and its ReplicaSets, of a line in testdata/scale.txt.
func scaleCase(t *testing.T, deployment, list string) (*rollout, []*appsv1.ReplicaSet) {
	t.Helper()
	var want, status int32
	var surge string
	if _, err := fmt.Sscan(deployment, &want, &surge, &status); err != nil {
		t.Fatal(err)
	}
	d := deploymentOf(want, "x", rolling(intstr.Parse(surge), intstr.FromInt32(1)))
	d.Status.Replicas = status
	s := &rollout{d: d, changed: map[*appsv1.ReplicaSet]*appsv1.ReplicaSet{}}
	var sets []*appsv1.ReplicaSet
	for i, text := range strings.Fields(list) {
		text, isNew := strings.CutPrefix(text, "*")
		created, text, _ := strings.Cut(text, ":")
		fields := strings.Split(text, "/")
		number := func(s string) int32 {
			n, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int32(n)
		}
		rs := setOf(string(rune('a'+i)), i+1, number(fields[0]), number(fields[1]))
		rs.CreationTimestamp = metav1.NewTime(time.Unix(int64(number(created)), 0))
		for i, key := range []string{desiredReplicasAnnotation, maxReplicasAnnotation} {
			if fields[2+i] != "-" {
				rs.Annotations[key] = fields[2+i]
			}
		}
		if isNew {
			s.newRS = rs
		}
		sets = append(sets, rs)
	}
	_, old := findNewAndOld(d, sets) // none has the template of d
	s.oldRSs = slices.DeleteFunc(old, func(rs *appsv1.ReplicaSet) bool { return rs == s.newRS })
	return s, sets
}
