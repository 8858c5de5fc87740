// Package tour follows a Database from a missing Secret to its deletion while the backup service is
// down, and checks each step against the API and at the backup service. It waits by watching and
// never polls.
package tour

import (
	"time"

	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/example"
)

// PollInterval is how often the operator of a tour asks the backup service for pending operations.
const PollInterval = 20 * time.Millisecond

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World, service *backup.Server) []example.Step {
	w := &world{World: shared, c: shared.Client, service: service}
	step := example.NewStep
	return []example.Step{
		step("the operator starts; Databases that cannot exist are rejected", w.start),
		step("a Database whose Secret is missing waits, to look again in 30 s; nothing is created", w.awaitSecret),
		step("other Secrets change: no reconcile. Its own appears, without the key: reconciled at once", w.otherSecrets),
		step("the key is added: woken at once, the vault is created, and polled while it is pending", w.awaitVault),
		step("the vault is ready: Services, StatefulSet, claims and 3 instances, one after the other", w.create),
		step("the operator is restarted: nothing is written", w.restart),
		step("engine and storage cannot be changed, and the version cannot be lowered", w.immutable),
		step("the Pod of the primary hangs in deletion: a replica takes over, and it returns as a replica", w.failOver),
		step("an upgrade: no instance is touched before the snapshot is complete, by no operator", w.snapshot),
		step("the snapshot is complete: replicas first, one at a time, promotion, the former primary last", w.upgrade),
		step("the StatefulSet's image is changed and the Service deleted by hand: restored, no instance replaced", w.drift),
		step("the backup service is down: failover, from two lost Pods, works without it; the status says so", w.backupDown),
		step("it is back, and has lost the vault: the next reconcile creates it again", w.vaultLost),
		step("scaled 3 → 2 while orders-2 is the primary: another takes over before it is removed", w.scaleDown),
		step("another Secret is named: one instance after the other, and only that Secret is watched", w.changeSecret),
		step("down again, and the Database is deleted: it stays, with the reason, retried with backoff", w.deleteWhileDown),
		step("the service is back: the vault is deleted, then the Database, then its dependents", w.deleted),
	}
}
