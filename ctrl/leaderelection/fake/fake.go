// Package fake has a lock for tests without other candidates: it is acquired at the first attempt,
// unless the test blocks that.
package fake

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/leaderelection"
	"flyball.dev/ctrl/recorder"
)

// ControllableResourceLockInterface is a lock that a test can block. It is safe for concurrent use.
type ControllableResourceLockInterface interface {
	resourcelock.Interface

	// BlockLeaderElection makes every attempt to take or renew the lock fail.
	BlockLeaderElection()

	// UnblockLeaderElection lets attempts succeed again.
	UnblockLeaderElection()
}

// NewResourceLock returns a new ControllableResourceLockInterface. It has the signature of
// leaderelection.NewResourceLock and ignores its arguments.
func NewResourceLock(
	config *rest.Config, recorderProvider recorder.Provider, options leaderelection.Options,
) (resourcelock.Interface, error) {
	return &lock{id: "fake_" + uuid.NewString()}, nil
}

// lock is a resource lock in memory.
type lock struct {
	id string

	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	blocked bool
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, l.id)
	}
	record := *l.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked {
		return errors.New("leader election is blocked")
	}
	l.record = &record
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.id }
func (l *lock) Describe() string   { return l.id }

func (l *lock) BlockLeaderElection()   { l.setBlocked(true) }
func (l *lock) UnblockLeaderElection() { l.setBlocked(false) }

func (l *lock) setBlocked(blocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = blocked
}
