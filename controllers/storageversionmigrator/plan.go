package storageversionmigrator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is the next action for a migration.
type step int

const (
	wait     step = iota // for another migration of the same resource
	begin                // become the one migration of the resource that runs
	finish               // the migration has ended: nothing runs
	fix                  // record the resource version that all objects are to be rewritten at
	rewrite              // rewrite the objects
	complete             // nothing is left to do
)

// next returns the next action for a migration, beside all migrations of the same resource. Of several, the oldest runs
// first, one at a time.
//
//upstream:pkg/controller/storageversionmigrator.MigrationRunnerController.getSVMsForResource
//upstream:pkg/controller/storageversionmigrator.compareSVM
func next(m *storagemigrationv1.StorageVersionMigration, all []storagemigrationv1.StorageVersionMigration) step {
	switch running, ended := isRunning(m), isTerminal(m); {
	case running && ended:
		return finish
	case ended:
		return complete
	case running && m.Status.ResourceVersion == "":
		return fix
	case running:
		return rewrite
	}
	open := slices.DeleteFunc(slices.Clone(all), func(other storagemigrationv1.StorageVersionMigration) bool {
		return other.Spec.Resource != m.Spec.Resource || isTerminal(&other)
	})
	first := slices.MinFunc(append(open, *m), func(a, b storagemigrationv1.StorageVersionMigration) int {
		if isRunning(&a) != isRunning(&b) {
			return cmp.Compare(rank(&a), rank(&b))
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if first.Name == m.Name {
		return begin
	}
	return wait
}

// rank orders a migration that runs before the others.
func rank(m *storagemigrationv1.StorageVersionMigration) int {
	if isRunning(m) {
		return 0
	}
	return 1
}

// isTerminal reports whether a migration has succeeded or failed.
//
//upstream:pkg/controller/storageversionmigrator.isTerminal
func isTerminal(m *storagemigrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationFailed))
}

// isRunning reports whether a migration runs.
//
//upstream:pkg/controller/storageversionmigrator.isRunning
func isRunning(m *storagemigrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationRunning))
}

// The reasons of conditions.
//
//upstream:pkg/controller/storageversionmigrator.migrationRunningReason
//upstream:pkg/controller/storageversionmigrator.migrationSuccessStatusReason
//upstream:pkg/controller/storageversionmigrator.migrationFailedStatusReason
const (
	runningReason   = "MigrationRunning"
	succeededReason = "StorageVersionMigrationSucceeded"
	failedReason    = "StorageVersionMigrationFailed"
)

// progress is how many of the objects are left.
type progress struct{ left, total int }

// message returns the message of the condition Running.
//
//upstream:pkg/controller/storageversionmigrator.migrationRunningMessage
func (p progress) message(transient error) string {
	message := "The migration is running"
	switch {
	case p.total > 0 && p.left > 0:
		message += fmt.Sprintf(", %d/%d objects not yet migrated", p.left, p.total)
	case p.total > 0:
		message += fmt.Sprintf(", %d objects verified migrated", p.total)
	}
	if transient != nil {
		message += "; transient error: " + transient.Error()
	}
	return message
}

// setRunning sets the condition Running, and reports whether that changes the status.
func setRunning(m *storagemigrationv1.StorageVersionMigration, p progress, transient error) bool {
	return meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(storagemigrationv1.MigrationRunning),
		Status: metav1.ConditionTrue, Reason: runningReason, Message: p.message(transient)})
}

// setSucceeded ends a migration.
func setSucceeded(m *storagemigrationv1.StorageVersionMigration) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(storagemigrationv1.MigrationSucceeded),
		Status: metav1.ConditionTrue, Reason: succeededReason, Message: "Migration completed"})
}

// setFailed ends a migration with an error.
//
//upstream:pkg/controller/storageversionmigrator.SVMController.failMigration
//upstream:pkg/controller/storageversionmigrator.SVMController.failMigrationWithObjectsMigrated
func setFailed(m *storagemigrationv1.StorageVersionMigration, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(storagemigrationv1.MigrationFailed),
		Status: metav1.ConditionTrue, Reason: failedReason, Message: message})
}

// discoveryDelay is how long a resource may be absent from discovery after the creation of its migration.
//
//upstream:pkg/controller/storageversionmigrator.ResourceVersionController.sync
const discoveryDelay = time.Minute
