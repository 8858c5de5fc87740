package dev

import (
	"context"
	"errors"
	"os"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"flyball.dev/ctrl/client"
)

// releaseLeases releases the leader election leases that processes of this machine hold. It is called after the
// operator has ended: many operators do not release their leases, and the next one would have to wait until they
// expire.
func releaseLeases(ctx context.Context, c client.Client) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	leases := &coordinationv1.LeaseList{}
	if err := c.List(ctx, leases); err != nil {
		return err
	}
	var errs []error
	for _, lease := range leases.Items {
		// The identity of a candidate is the host and a UUID.
		if holder := lease.Spec.HolderIdentity; holder == nil || !strings.HasPrefix(*holder, host+"_") {
			continue
		}
		*lease.Spec.HolderIdentity = ""
		errs = append(errs, client.IgnoreNotFound(c.Update(ctx, &lease)))
	}
	return errors.Join(errs...)
}
