package controller

import (
	"cmp"
	"fmt"

	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/internal/backup"
)

// plan is the next step for a Database, and the reason.
type plan struct {
	// apply is whether the Services and the StatefulSet are to be applied, with this version and
	// these replicas.
	apply    bool
	version  string
	replicas int32
	// primary is the instance that the Service is to select.
	primary string
	// createVault is whether the vault is to be created.
	createVault bool
	// snapshot is the name of a snapshot to take, or "".
	snapshot string
	// stop is an instance to delete, or nil. The StatefulSet creates it again from its template.
	stop *instance
	// poll and retry are whether something is to be looked at again after the interval of that
	// name.
	poll, retry bool
	// reason and message are for the condition Ready, which is true if reason is "".
	reason, message string
}

// failingOver is the reason while a replica takes over from a primary that is not ready.
const failingOver = "FailingOver"

// because sets why the Database is not ready. It returns true, which ends the sequence.
func (p *plan) because(reason, format string, args ...any) bool {
	p.reason, p.message = reason, fmt.Sprintf(format, args...)
	return true
}

// sequence are the rules in the order in which they matter. The first that applies decides the
// action; it returns true. An upgrade is: take a snapshot, change the version, stop one replica after
// the other, promote an upgraded one, and stop the former primary. Each reconcile computes from the
// observed state where the Database is in the sequence.
var sequence = []func(*dbv1.Database, *observed, *plan) bool{
	awaitName,
	failOver,
	awaitSecret,
	awaitVault,
	create,
	takeSnapshot,
	changeTemplate,
	moveFromExcess,
	replaceFailed,
	awaitInstances,
	stopReplica,
	promote,
}

// next returns the next plan.
func next(db *dbv1.Database, o *observed) plan {
	p := plan{
		// Without the password instances would not start, so the StatefulSet is left as it is.
		apply:    o.set && o.secret == "",
		version:  o.primaryVersion(),
		replicas: db.Spec.Replicas,
		primary:  cmp.Or(o.primary, instanceOf(db, 0)),
	}
	if !o.upgrading(db) || o.snapshot == backup.Ready {
		p.version = db.Spec.Version
	}
	if o.set && ordinalOf(p.primary) >= p.replicas {
		p.replicas = o.replicas // until another instance is the primary
	}
	for _, rule := range sequence {
		if rule(db, o, &p) {
			break
		}
	}
	return p
}

// awaitName waits while a name is taken. Nothing is applied then: it would change objects of
// somebody else.
func awaitName(_ *dbv1.Database, o *observed, p *plan) bool {
	if o.taken == "" {
		return false
	}
	*p = plan{retry: true}
	return p.because("NameTaken", "%s", o.taken)
}

// failOver makes a ready replica the primary if the primary is not ready.
func failOver(db *dbv1.Database, o *observed, p *plan) bool {
	if !o.set || o.primary == "" {
		return false
	}
	if primary := o.instance(o.primary); primary != nil && primary.ready {
		return false
	}
	successor := o.successor(db)
	if successor == nil {
		return false
	}
	p.primary = successor.name
	return p.because(failingOver, "%s is not ready, so %s becomes the primary", o.primary, successor.name)
}

// awaitSecret waits for the Secret.
func awaitSecret(_ *dbv1.Database, o *observed, p *plan) bool {
	if o.secret == "" {
		return false
	}
	p.retry = true
	return p.because("SecretNotReady", "%s", o.secret)
}

// awaitVault creates the vault and waits for it. A Database that runs already does not wait.
func awaitVault(_ *dbv1.Database, o *observed, p *plan) bool {
	switch {
	case o.backupErr != nil:
		return !o.set && p.because("BackupServiceUnavailable", "%v", o.backupErr)
	case o.vault == backup.Ready:
		return false
	}
	p.createVault = o.vault == backup.Absent
	p.poll = true
	return !o.set && p.because("VaultPending", "the vault at the backup service is being created")
}

// create creates the StatefulSet.
func create(_ *dbv1.Database, o *observed, p *plan) bool {
	if o.set {
		return false
	}
	p.apply = true
	return p.because("Creating", "the instances are being created")
}

// takeSnapshot takes a snapshot before the version of the StatefulSet is changed, and waits for it.
func takeSnapshot(db *dbv1.Database, o *observed, p *plan) bool {
	if p.version == db.Spec.Version {
		return false
	}
	upgrade := fmt.Sprintf("the upgrade from %s to %s", p.version, db.Spec.Version)
	switch {
	case o.backupErr != nil:
		return p.because("BackupServiceUnavailable", "%s has to wait: %v", upgrade, o.backupErr)
	case o.vault != backup.Ready:
		return p.because("VaultPending", "%s waits for the vault at the backup service", upgrade)
	case o.snapshot == backup.Absent:
		p.snapshot = o.snapshotName(db)
	}
	p.poll = true
	return p.because("TakingSnapshot", "%s waits for the snapshot %s", upgrade, o.snapshotName(db))
}

// changeTemplate waits until the StatefulSet has the version and its controller has seen that.
func changeTemplate(_ *dbv1.Database, o *observed, p *plan) bool {
	if o.version == p.version && o.current {
		return false
	}
	return p.because("Updating", "the StatefulSet is being updated")
}

// moveFromExcess makes an instance the primary that remains when the StatefulSet is scaled down.
func moveFromExcess(db *dbv1.Database, o *observed, p *plan) bool {
	if ordinalOf(p.primary) < db.Spec.Replicas {
		return false
	}
	successor := o.successor(db)
	if successor == nil {
		return p.because("InstancesNotReady", "no other instance can take over from %s, which is to be removed", p.primary)
	}
	p.primary = successor.name
	return p.because("Promoting", "%s takes over from %s, which is to be removed", successor.name, o.primary)
}

// replaceFailed stops an outdated instance that is not ready: nothing is lost by that.
func replaceFailed(_ *dbv1.Database, o *observed, p *plan) bool {
	for i := range o.instances {
		if failed := &o.instances[i]; failed.outdated && !failed.ready && !failed.stopping {
			p.stop = failed
			return p.because("ReplacingInstance", "%s is outdated and not ready, and is being replaced", failed.name)
		}
	}
	return false
}

// awaitInstances waits until all instances are ready. No other is stopped before.
func awaitInstances(_ *dbv1.Database, o *observed, p *plan) bool {
	ready := o.readyInstances()
	if ready == p.replicas && len(o.instances) == int(p.replicas) {
		return false
	}
	return p.because("InstancesNotReady", "%d of %d instances are ready", ready, p.replicas)
}

// stopReplica stops an outdated replica, so that the StatefulSet creates it again from its
// template.
func stopReplica(_ *dbv1.Database, o *observed, p *plan) bool {
	for i := len(o.instances) - 1; i >= 0; i-- {
		if replica := &o.instances[i]; replica.outdated && replica.name != o.primary {
			p.stop = replica
			return p.because("Upgrading", "%s is being replaced", replica.name)
		}
	}
	return false
}

// promote makes an upgraded replica the primary if the primary is outdated, which is then a replica
// and is stopped next.
func promote(db *dbv1.Database, o *observed, p *plan) bool {
	primary := o.instance(o.primary)
	if primary != nil && !primary.outdated {
		return false
	}
	successor := o.successor(db)
	if successor == nil {
		return p.because("InstancesNotReady", "no instance can become the primary")
	}
	p.primary = successor.name
	return p.because("Promoting", "%s becomes the primary", successor.name)
}

// successor returns the instance that should become the primary instead of the one that is: a ready
// one that is to remain, one that is not outdated if there is any, and of those the first. It is
// nil if there is none.
func (o *observed) successor(db *dbv1.Database) *instance {
	var found *instance
	for n := range o.instances {
		i := &o.instances[n]
		if !i.ready || i.name == o.primary || i.ordinal >= db.Spec.Replicas {
			continue
		}
		if found == nil || found.outdated && !i.outdated {
			found = i
		}
	}
	return found
}
