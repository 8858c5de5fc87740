// Package leaderelection makes the lock over which the replicas of a program agree on a leader: a
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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/recorder"
)

// namespaceFile is where a pod finds the namespace it runs in.
var namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options describe the lock.
type Options struct {
	// LeaderElection says whether there is to be a lock at all.
	LeaderElection bool

	// LeaderElectionResourceLock is the kind of lock, "leases" by default.
	LeaderElectionResourceLock string

	// LeaderElectionNamespace is the namespace of the lock. By default it is the one that the
	// program runs in, when it runs in a pod.
	LeaderElectionNamespace string

	// LeaderElectionID is the name of the lock. It is required.
	LeaderElectionID string

	// RenewDeadline is how long a leader tries to renew the lock before it gives up. Requests time
	// out after half of it, but not before a second, so that one slow answer does not cost the
	// lock. Zero sets no timeout.
	RenewDeadline time.Duration

	// LeaderLabels are put on the lock by the replica that holds it.
	LeaderLabels map[string]string
}

// NewResourceLock returns the lock, with an identity of its own: the name of the host and a random
// part. It returns nil and no error if there is to be no lock. Events about the lock go to
// recorderProvider, if that is not nil. Nothing is read or written yet.
func NewResourceLock(config *rest.Config, recorderProvider recorder.Provider, options Options) (resourcelock.Interface, error) {
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
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return resourcelock.NewWithLabels(options.LeaderElectionResourceLock, options.LeaderElectionNamespace,
		options.LeaderElectionID, core, coordination, lock, options.LeaderLabels)
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
