package fake

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/leaderelection"
)

func TestLock(t *testing.T) {
	made, err := NewResourceLock(nil, nil, leaderelection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := made.(ControllableResourceLockInterface)
	if _, _, err := l.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("a lock that is not held: %v", err)
	}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}
	if err := l.Create(t.Context(), mine); err != nil {
		t.Error(err)
	}
	l.BlockLeaderElection()
	if l.Update(t.Context(), resourcelock.LeaderElectionRecord{}) == nil || l.Create(t.Context(), resourcelock.LeaderElectionRecord{}) == nil {
		t.Error("a blocked lock was taken")
	}
	if record, raw, err := l.Get(t.Context()); err != nil || record.HolderIdentity != l.Identity() || len(raw) == 0 {
		t.Errorf("got %+v, %s, %v", record, raw, err)
	}
	l.UnblockLeaderElection()
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Error(err)
	}
}
