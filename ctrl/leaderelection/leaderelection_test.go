package leaderelection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestNewResourceLock(t *testing.T) {
	dir := t.TempDir()
	inPod, outside := filepath.Join(dir, "namespace"), filepath.Join(dir, "none")
	if err := os.WriteFile(inPod, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func(f string) { namespaceFile = f }(namespaceFile)

	for name, c := range map[string]struct {
		options Options
		file    string
		lock    string // what the lock is called; empty means that there is none
		err     string
	}{
		"off":            {Options{}, outside, "", ""},
		"without a name": {Options{LeaderElection: true}, outside, "", "LeaderElectionID must be configured"},
		"outside":        {Options{LeaderElection: true, LeaderElectionID: "x"}, outside, "", "not running in-cluster, please specify LeaderElectionNamespace"},
		"in a pod":       {Options{LeaderElection: true, LeaderElectionID: "x"}, inPod, "mine/x", ""},
		"elsewhere":      {Options{LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "n"}, inPod, "n/x", ""},
		"of a kind that is no more": {
			Options{LeaderElection: true, LeaderElectionID: "x", LeaderElectionResourceLock: "endpoints"}, inPod, "", "endpoints lock is removed",
		},
		"unreadable": {Options{LeaderElection: true, LeaderElectionID: "x"}, dir, "", "error reading namespace file"},
	} {
		t.Run(name, func(t *testing.T) {
			namespaceFile = c.file
			lock, err := NewResourceLock(&rest.Config{Host: "http://nowhere.test"}, nil, c.options)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if (lock != nil) != (c.lock != "") || lock != nil && lock.Describe() != c.lock {
				t.Errorf("got %v, want %s", lock, c.lock)
			}
		})
	}
}

func TestIdentityAndTimeout(t *testing.T) {
	config := &rest.Config{Host: "http://nowhere.test"}
	options := Options{
		LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "n",
		RenewDeadline: time.Minute, LeaderLabels: map[string]string{"a": "b"},
	}
	var locks [2]*resourcelock.LeaseLock
	for i := range locks {
		lock, err := NewResourceLock(config, nil, options)
		if err != nil {
			t.Fatal(err)
		}
		locks[i] = lock.(*resourcelock.LeaseLock)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := locks[0].Identity(), locks[1].Identity(); a == b || !strings.HasPrefix(a, host+"_") {
		t.Errorf("the identities are %s and %s", a, b)
	}
	if locks[0].Labels["a"] != "b" {
		t.Errorf("the labels are %v", locks[0].Labels)
	}
	if config.Timeout != 0 || config.UserAgent != "" {
		t.Error("the caller's configuration was changed")
	}
}
