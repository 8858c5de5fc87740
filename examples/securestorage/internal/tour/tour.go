// Package tour runs a scenario with SecureStorages and checks each step against the API and the cloud.
// It waits by watching and never polls.
package tour

import (
	"context"

	"flyball.dev/examples/internal/example"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World, server *cloudserver.Server, client *cloud.Client) []example.Step {
	w := &world{World: shared, c: shared.Client, cloud: client, server: server}
	step := example.NewStep
	interrupted := func(phase storagev1.Phase) func(context.Context) error {
		return func(ctx context.Context) error { return w.interrupted(ctx, phase) }
	}
	return []example.Step{
		step("the operator starts", w.start),
		step("a SecureStorage is created: there is an account, and its identity is awaited", w.create),
		step("the identity is there: access is granted, the key enabled", w.becomeReady),
		step("everything is as it should be: the cloud is polled, and nothing is written", w.idle),
		step("the status is wiped: it is computed again, and nothing is done in the cloud", w.wipe),
		step("Unknown: the cloud fails, the status is wiped, the operator restarts: it goes on", interrupted(storagev1.PhaseUnknown)),
		step("CreatingAccount: the same", interrupted(storagev1.PhaseCreatingAccount)),
		step("WaitingForIdentity: the same", interrupted(storagev1.PhaseWaitingForIdentity)),
		step("GrantingAccess: the same", interrupted(storagev1.PhaseGrantingAccess)),
		step("EnablingKey: the same", interrupted(storagev1.PhaseEnablingKey)),
		step("the cloud does what it is asked to, but the answers are lost: nothing is done twice", w.loseAnswers),
		step("access is revoked in the cloud: granted again", w.revokeByHand),
		step("the account is deleted in the cloud: a new one, and the old one's access is revoked", w.deleteAccountByHand),
		step("the key is changed in the spec: the account is encrypted with the new one", w.changeKey),
		step("a key and a vault that do not exist: refused, with an event; added: done", w.refused),
		step("the location cannot be changed", w.rejectMove),
		step("deleted while the cloud is down: it waits, and is cleaned up when the cloud is back", w.deleteWhileDown),
		step("deleted when the account and the vault are gone: there is nothing to wait for", w.deleteWhatIsGone),
	}
}
