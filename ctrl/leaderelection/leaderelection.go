// Package leaderelection creates the lock with which the replicas of a program elect a leader: a
// Lease in the cluster.
package leaderelection

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/recorder"
)

// namespaceFile is the file with the namespace of the pod.
var namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options describe the lock.
type Options struct {
	// LeaderElection enables leader election.
	LeaderElection bool

	// LeaderElectionResourceLock is the kind of lock, "leases" by default.
	LeaderElectionResourceLock string

	// LeaderElectionNamespace is the namespace of the lock. In a pod it defaults to the pod's
	// namespace.
	LeaderElectionNamespace string

	// LeaderElectionID is the name of the lock. It is required.
	LeaderElectionID string

	// RenewDeadline is how long a leader tries to renew the lock before it stops leading. Requests
	// time out after half of it, but not before a second, so that the lock is not lost by one slow
	// response. Zero sets no timeout.
	RenewDeadline time.Duration

	// LeaderLabels are put on the lock by the replica that holds it.
	LeaderLabels map[string]string
}

// NewResourceLock returns the lock, with a unique identity: the host's name and a random part. It
// returns nil and no error if leader election is disabled. Events of the lock are recorded with
// recorderProvider, if that is not nil. It makes no request.
func NewResourceLock(
	config *rest.Config, recorderProvider recorder.Provider, options Options,
) (resourcelock.Interface, error) {
	if !options.LeaderElection {
		return nil, nil
	}
	if options.LeaderElectionID == "" {
		return nil, errors.New("LeaderElectionID must be configured")
	}
	if options.LeaderElectionResourceLock == "" {
		options.LeaderElectionResourceLock = resourcelock.LeasesResourceLock
	}
	if options.LeaderElectionNamespace == "" {
		namespace, err := ownNamespace()
		if err != nil {
			return nil, fmt.Errorf("unable to find leader election namespace: %w", err)
		}
		options.LeaderElectionNamespace = namespace
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	lock := resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}
	if recorderProvider != nil {
		//lint:ignore SA1019 locks record events with the core API
		lock.EventRecorder = recorderProvider.GetEventRecorderFor(lock.Identity)
	}

	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	if options.RenewDeadline != 0 {
		config.Timeout = max(options.RenewDeadline/2, time.Second)
	}
	coordination, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return resourcelock.NewWithLabels(options.LeaderElectionResourceLock, options.LeaderElectionNamespace,
		options.LeaderElectionID, nil, coordination, lock, options.LeaderLabels)
}

func ownNamespace() (string, error) {
	namespace, err := os.ReadFile(namespaceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("not running in-cluster, please specify LeaderElectionNamespace")
	}
	if err != nil {
		return "", fmt.Errorf("error reading namespace file: %w", err)
	}
	return strings.TrimSpace(string(namespace)), nil
}
