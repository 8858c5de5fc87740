package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// model is a Database in a world where every part may fail or be slow.
type model struct {
	db         *dbv1.Database
	o          observed
	revision   int // of the template
	revisions  map[string]int
	snapshots  map[string]backup.State
	violations []string
}

// TestUpgradeInAnyOrder runs plans against a world in which random things happen in between. The
// rules that protect the data hold all the time, and when nothing happens any more, the Database
// becomes ready.
func TestUpgradeInAnyOrder(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := &model{db: newDatabase(), revisions: map[string]int{}, snapshots: map[string]backup.State{}}
		m.db.Spec.Version = "17.1"
		for range 60 {
			m.disturb(random)
			m.environment(random)
			if random.IntN(3) > 0 {
				m.reconcile()
			}
		}
		m.o.secret, m.o.backupErr = "", nil
		ready := false
		for n := 0; n < 300 && !ready; n++ {
			m.environment(nil)
			ready = m.reconcile() == ""
		}
		if !ready {
			t.Errorf("seed %d: not ready: %+v", seed, m.observe())
		}
		if m.o.replicas != m.db.Spec.Replicas || len(m.o.instances) != int(m.o.replicas) {
			t.Errorf("seed %d: %d replicas, want %d", seed, m.o.replicas, m.db.Spec.Replicas)
		}
		for _, i := range m.o.instances {
			if i.version != m.db.Spec.Version || !i.ready {
				t.Errorf("seed %d: %+v at the end, want version %s", seed, i, m.db.Spec.Version)
			}
		}
		if len(m.violations) > 0 {
			t.Fatalf("seed %d: %q", seed, m.violations)
		}
	}
}

// disturb makes something happen, or not.
func (m *model) disturb(random *rand.Rand) {
	switch random.IntN(20) {
	case 0:
		var minor int
		if _, err := fmt.Sscanf(m.db.Spec.Version, "17.%d", &minor); err != nil {
			panic(err)
		}
		m.db.Spec.Version = fmt.Sprintf("17.%d", minor+1)
	case 1:
		m.db.Spec.Replicas = int32(2 + random.IntN(4))
	case 2:
		m.o.backupErr = errors.New("down")
	case 3:
		m.o.backupErr = nil
	case 4:
		m.o.secret = "none"
	case 5:
		m.o.secret = ""
	case 6, 7:
		if n := len(m.o.instances); n > 0 {
			m.o.instances[random.IntN(n)].ready = false
		}
	case 8:
		if n := len(m.o.instances); n > 0 {
			m.delete(m.o.instances[random.IntN(n)].name)
		}
	}
}

// environment is what the StatefulSet's controller and the backup service do. If random is nil,
// they do all that they can.
func (m *model) environment(random *rand.Rand) {
	sometimes := func() bool { return random == nil || random.IntN(3) == 0 }
	if m.o.vault == backup.Pending && sometimes() {
		m.o.vault = backup.Ready
	}
	for name := range m.snapshots {
		if sometimes() {
			m.snapshots[name] = backup.Ready
		}
	}
	if !m.o.set || !sometimes() {
		return
	}
	m.o.current = true
	for i := range m.o.instances {
		m.o.instances[i].ready = m.o.instances[i].ready || sometimes()
	}
	for n := int32(len(m.o.instances)); n > m.o.replicas; n-- {
		m.delete(m.o.instances[n-1].name)
	}
	for n := range m.o.replicas {
		if name := instanceOf(m.db, int(n)); m.o.instance(name) == nil {
			created := instance{name: name, ordinal: n, version: m.o.version}
			m.o.instances = append(m.o.instances[:n:n], append([]instance{created}, m.o.instances[n:]...)...)
			m.revisions[name] = m.revision
			return
		}
	}
}

// delete deletes a pod.
func (m *model) delete(name string) {
	for i := range m.o.instances {
		if m.o.instances[i].name == name {
			m.o.instances = append(m.o.instances[:i:i], m.o.instances[i+1:]...)
			return
		}
	}
}

// observe returns what a reconcile observes.
func (m *model) observe() *observed {
	o := m.o
	o.instances = append([]instance{}, m.o.instances...)
	for i := range o.instances {
		o.instances[i].outdated = m.revisions[o.instances[i].name] != m.revision
	}
	if o.upgrading(m.db) {
		o.snapshot = m.snapshots[o.snapshotName(m.db)]
	}
	return &o
}

// reconcile executes a plan, checks it, and returns the reason why the Database is not ready.
func (m *model) reconcile() string {
	o := m.observe()
	p := next(m.db, o)
	m.check(o, p)
	if p.createVault && o.backupErr == nil {
		m.o.vault = backup.Pending
	}
	if p.snapshot != "" && o.backupErr == nil && m.snapshots[p.snapshot] == backup.Absent {
		m.snapshots[p.snapshot] = backup.Pending
	}
	if o.set || p.apply {
		m.o.primary = p.primary
	}
	if p.apply {
		if m.o.version != p.version {
			m.revision++
		}
		m.o.current = m.o.set && m.o.version == p.version && m.o.replicas == p.replicas && m.o.current
		m.o.set, m.o.version, m.o.replicas = true, p.version, p.replicas
	}
	if p.stop != nil {
		m.delete(p.stop.name)
	}
	return p.reason
}

// check records what a plan must not do.
func (m *model) check(o *observed, p plan) {
	violation := func(format string, args ...any) {
		m.violations = append(m.violations, fmt.Sprintf(format, args...)+fmt.Sprintf(": %+v of %+v", p, *o))
	}
	if p.stop != nil {
		if p.stop.ready && (p.stop.name == o.primary || p.stop.name == p.primary) {
			violation("a primary that serves is stopped")
		}
		if p.stop.ready && o.readyInstances() < int32(len(o.instances)) {
			violation("a ready instance is stopped while another is not ready")
		}
		if !p.stop.outdated {
			violation("an instance is stopped that is not outdated")
		}
	}
	if o.set && o.primary != "" && p.primary != o.primary && !o.instance(p.primary).ready {
		violation("an instance is promoted that is not ready")
	}
	if o.set && p.apply && p.version != o.version && o.primaryVersion() != p.version &&
		m.snapshots[o.primaryVersion()+"-to-"+p.version] != backup.Ready {
		violation("the version is changed without a snapshot")
	}
	if o.set && p.apply && ordinalOf(o.primary) >= p.replicas {
		violation("the primary is scaled away")
	}
}
